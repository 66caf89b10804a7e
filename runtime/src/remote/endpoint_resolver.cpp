#include "remote/endpoint_resolver.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/un.h>

#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

namespace kernwright {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

/// getaddrinfo. With AI_NUMERICHOST in `flags` it asks nobody.
Result<std::vector<SocketAddress>> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int problem = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (problem != 0) return fail(ErrorCode::not_found, fmt::format("no address for the host '{}': {}", host, ::gai_strerror(problem)));
  const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, item->ai_addr, item->ai_addrlen);
    address.length = item->ai_addrlen;
  }
  return addresses;
}

SocketAddress unix_address(const std::string& path) {
  sockaddr_un plain{};
  plain.sun_family = AF_UNIX;
  std::memcpy(plain.sun_path, path.data(), std::min(path.size(), sizeof(plain.sun_path) - 1));  // the URL's reader checked the length
  SocketAddress address;
  std::memcpy(&address.storage, &plain, sizeof(plain));
  address.length = sizeof(plain);
  return address;
}

}  // namespace

NameLookup system_name_lookup() {
  return [](const std::string& host, std::uint16_t port) { return look_up(host, port, AI_ADDRCONFIG); };
}

EndpointResolver::EndpointResolver(RemoteAddress address, NameLookup lookup) : address_(std::move(address)), lookup_(std::move(lookup)) {}

Result<std::vector<SocketAddress>> EndpointResolver::addresses(Deadline deadline) {
  if (!address_.socket_path.empty()) return std::vector{unix_address(address_.socket_path)};
  if (auto numeric = look_up(address_.host, address_.port, AI_NUMERICHOST)) return numeric;

  std::shared_ptr<Inquiry> inquiry;
  {
    const std::lock_guard lock(mutex_);
    if (known_) return *known_;
    if (!inquiry_) {
      if (auto begun = begin_inquiry(); !begun) return fail(std::move(begun.error()));
    }
    inquiry = inquiry_;
  }
  std::unique_lock waiting(inquiry->mutex);
  if (!inquiry->answered.wait_until(waiting, deadline.moment(), [&] { return inquiry->answer.has_value(); })) {
    return fail(ErrorCode::timed_out,
                fmt::format("looking up the host '{}' takes long; a numeric address needs no look-up", address_.host));
  }
  Result<Addresses> answer = *inquiry->answer;
  waiting.unlock();
  const std::lock_guard lock(mutex_);
  if (inquiry_ == inquiry) {
    inquiry_.reset();
    if (answer) known_ = *answer;
  }
  return answer;
}

Result<> EndpointResolver::begin_inquiry() {
  inquiry_ = std::make_shared<Inquiry>();
  const auto ask = [inquiry = inquiry_, lookup = lookup_, host = address_.host, port = address_.port] {
    Result<Addresses> answer = fail(ErrorCode::internal, "the look-up failed");
    try {
      answer = lookup(host, port);
    } catch (const std::exception& thrown) {
      answer = fail(ErrorCode::internal, thrown.what());
    }
    const std::lock_guard lock(inquiry->mutex);
    inquiry->answer = std::move(answer);
    inquiry->answered.notify_all();
  };
  try {
    std::thread(ask).detach();
  } catch (const std::system_error& problem) {
    inquiry_.reset();
    return fail(ErrorCode::internal, fmt::format("no thread for looking up the host '{}': {}", address_.host, problem.what()));
  }
  return {};
}

void EndpointResolver::forget() {
  const std::lock_guard lock(mutex_);
  known_.reset();
}

}  // namespace kernwright
