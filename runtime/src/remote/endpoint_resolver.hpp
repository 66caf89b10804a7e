// The socket addresses of a server. Asking for a name may take many seconds and cannot be cut short, so nobody here waits for its end.
#pragma once

#include <sys/socket.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/result.hpp"
#include "remote/deadline.hpp"
#include "remote/remote_address.hpp"

namespace kernwright {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// The addresses of a host name, at least one; may take as long as it likes. Called on a thread of its own that outlives the resolver.
using NameLookup = std::function<Result<std::vector<SocketAddress>>(const std::string& host, std::uint16_t port)>;
NameLookup system_name_lookup();

/// Thread-safe.
class EndpointResolver {
 public:
  EndpointResolver(RemoteAddress address, NameLookup lookup);

  /// A socket's path and a numeric address at once. A name is looked up on a thread of its own, one at a time: timed_out where that has not
  /// answered by the deadline; a later call gets what comes late. An answer is kept until forget().
  Result<std::vector<SocketAddress>> addresses(Deadline deadline);
  /// For after a connection in vain: the name is looked up anew. A look-up under way goes on.
  void forget();

 private:
  using Addresses = std::vector<SocketAddress>;
  struct Inquiry {
    std::mutex mutex;
    std::condition_variable answered;
    std::optional<Result<Addresses>> answer;
  };
  Result<> begin_inquiry();

  const RemoteAddress address_;
  const NameLookup lookup_;
  std::mutex mutex_;
  std::optional<Addresses> known_;
  std::shared_ptr<Inquiry> inquiry_;  ///< Shared with its thread, which may be the last to let go of it.
};

}  // namespace kernwright
