#include "remote/redis_connection.hpp"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <utility>

#include "platform/file_system.hpp"

namespace kernwright {
namespace {

constexpr std::size_t kReceivedAtOnce = std::size_t{64} << 10;
constexpr std::size_t kQuotedBytes = 160;

/// The server's words for a log: cut short, and printable.
std::string printable(std::string_view text) {
  std::string result(text.substr(0, kQuotedBytes));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

/// The first word of an error, where it is one that Redis has. What follows is not shown: some servers repeat the command, password and
/// all.
std::string_view error_name(std::string_view text) {
  constexpr std::array<std::string_view, 6> kNames{"WRONGPASS", "NOAUTH", "NOPERM", "LOADING", "MISCONF", "ERR"};
  const std::string_view word = text.substr(0, text.find(' '));
  const auto* const found = std::find(kNames.begin(), kNames.end(), word);
  return found == kNames.end() ? "an error" : *found;
}

struct FreeCommand {
  void operator()(char* command) const noexcept { redisFreeCommand(command); }
};

struct Command {
  std::unique_ptr<char, FreeCommand> text;
  std::size_t size = 0;
};

Result<Command> format(const std::vector<std::string_view>& words) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> sizes;
  for (const std::string_view word : words) {
    pointers.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* text = nullptr;
  const int size = redisFormatCommandArgv(&text, static_cast<int>(words.size()), pointers.data(), sizes.data());
  if (size < 0 || text == nullptr) return fail(ErrorCode::out_of_memory, "no memory for a command");
  return Command{std::unique_ptr<char, FreeCommand>(text), static_cast<std::size_t>(size)};
}

}  // namespace

RedisConnection::RedisConnection(RemoteAddress address, std::shared_ptr<EndpointResolver> resolver, RedisSettings settings)
    : address_(std::move(address)), resolver_(std::move(resolver)), settings_(settings), received_(kReceivedAtOnce) {}

RemoteLink::Value RedisConnection::get(const std::string& name, Deadline deadline) {
  using Outcome = Value::Outcome;
  auto reply = ask({"GET", name}, deadline);
  if (!reply) {
    const bool answered = reply.error().code == ErrorCode::malformed || reply.error().code == ErrorCode::does_not_fit;
    return {answered ? Outcome::unusable : Outcome::unavailable, {}, std::move(reply.error().message)};
  }
  switch (reply->kind) {
    case RedisReply::Kind::value: {
      const auto bytes = as_bytes(reply->text);
      return {Outcome::present, {bytes.begin(), bytes.end()}, {}};
    }
    case RedisReply::Kind::nil: return {Outcome::absent, {}, {}};
    case RedisReply::Kind::error: {
      const bool other_type = reply->text.starts_with("WRONGTYPE");
      return {other_type ? Outcome::unusable : Outcome::unavailable, {}, fmt::format("the server says: {}", printable(reply->text))};
    }
    default: socket_.reset(); return {Outcome::unusable, {}, "the server's answer to GET is no value"};
  }
}

std::string RedisConnection::set(const std::string& name, std::span<const std::byte> value, Deadline deadline) {
  const std::string seconds = std::to_string(settings_.time_to_live_seconds);
  Words words{"SET", name, as_text(value)};
  if (settings_.time_to_live_seconds > 0) words.insert(words.end(), {"EX", seconds});
  const auto reply = ask(words, deadline);
  if (!reply) return reply.error().message;
  if (reply->kind == RedisReply::Kind::status && reply->text == "OK") return {};
  if (reply->kind == RedisReply::Kind::error) return fmt::format("the server says: {}", printable(reply->text));
  socket_.reset();
  return "the server's answer to SET is not OK";
}

Result<RedisReply> RedisConnection::ask(const Words& words, Deadline deadline) {
  for (int attempt = 0;; ++attempt) {
    const bool kept = socket_ && socket_->quiet();
    if (!kept) {
      if (auto opened = open(deadline); !opened) return fail(std::move(opened.error()));
    }
    auto reply = talk(words, deadline);
    if (reply) return reply;
    // Between the look at the connection and the command the server may have closed it, as a restart or its idle limit do.
    if (!kept || attempt > 0 || reply.error().code != ErrorCode::io) return reply;
  }
}

Result<> RedisConnection::open(Deadline deadline) {
  socket_.reset();
  const Deadline connected = deadline.or_in(settings_.connect_time);
  const auto addresses = resolver_->addresses(connected);
  if (!addresses) return fail(Error(addresses.error()));
  auto socket = RedisSocket::connect(*addresses, connected);
  if (!socket) {
    resolver_->forget();
    return fail(std::move(socket.error()));
  }
  socket_ = std::move(*socket);

  if (!address_.password.empty()) {
    const Words with_user{"AUTH", address_.user, address_.password};
    const Words without{"AUTH", address_.password};
    if (auto done = introduce(address_.user.empty() ? without : with_user, deadline); !done) return done;
  }
  if (address_.database == 0) return {};
  const std::string number = std::to_string(address_.database);
  return introduce({"SELECT", number}, deadline);
}

Result<> RedisConnection::introduce(const Words& words, Deadline deadline) {
  auto reply = talk(words, deadline);
  if (!reply) return fail(std::move(reply.error()));
  if (reply->kind == RedisReply::Kind::status && reply->text == "OK") return {};
  socket_.reset();
  return fail(ErrorCode::invalid_argument, fmt::format("the server refuses {}: {}", words.front(), error_name(reply->text)));
}

Result<RedisReply> RedisConnection::talk(const Words& words, Deadline deadline) {
  const auto conversation = [&]() -> Result<RedisReply> {
    const auto command = format(words);
    if (!command) return fail(Error(command.error()));
    if (auto sent = socket_->send(as_bytes({command->text.get(), command->size}), deadline); !sent) return fail(std::move(sent.error()));
    RedisReplyReader reader(settings_.largest_value);
    for (;;) {
      const auto got = socket_->receive(received_, deadline);
      if (!got) return fail(Error(got.error()));
      switch (reader.take(std::span(received_).first(*got))) {
        case RedisReplyReader::State::incomplete: break;
        case RedisReplyReader::State::complete: return std::move(reader.reply());
        case RedisReplyReader::State::too_large: return fail(ErrorCode::does_not_fit, reader.problem());
        case RedisReplyReader::State::broken: return fail(ErrorCode::malformed, "the server's answer is " + reader.problem());
      }
    }
  };
  auto reply = conversation();
  // What is left of an answer would be taken for the next one's beginning.
  if (!reply) socket_.reset();
  return reply;
}

}  // namespace kernwright
