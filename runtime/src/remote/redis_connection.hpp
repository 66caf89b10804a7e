// A RemoteLink to a Redis server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "remote/endpoint_resolver.hpp"
#include "remote/redis_reply.hpp"
#include "remote/redis_socket.hpp"
#include "remote/remote_address.hpp"
#include "remote/remote_link.hpp"

namespace kernwright {

struct RedisSettings {
  std::size_t largest_value = 0;
  std::int64_t time_to_live_seconds = 0;                                   ///< 0: none.
  Deadline::Clock::duration connect_time = std::chrono::milliseconds(20);  ///< For name and connection, inside a call's deadline.
};

class RedisConnection final : public RemoteLink {
 public:
  RedisConnection(RemoteAddress address, std::shared_ptr<EndpointResolver> resolver, RedisSettings settings);
  Value get(const std::string& name, Deadline deadline) override;
  std::string set(const std::string& name, std::span<const std::byte> value, Deadline deadline) override;

 private:
  using Words = std::vector<std::string_view>;
  /// The server's answer to one command, on the connection that is there or a new one. One that the server has closed meanwhile is opened
  /// again, once. Errors: io, timed_out, does_not_fit (an answer that is too large), malformed (no answer to such a command),
  /// invalid_argument (the server refuses the password or the database).
  Result<RedisReply> ask(const Words& words, Deadline deadline);
  Result<> open(Deadline deadline);
  Result<> introduce(const Words& words, Deadline deadline);
  Result<RedisReply> talk(const Words& words, Deadline deadline);

  const RemoteAddress address_;
  const std::shared_ptr<EndpointResolver> resolver_;
  const RedisSettings settings_;
  std::optional<RedisSocket> socket_;
  std::vector<std::byte> received_;
};

}  // namespace kernwright
