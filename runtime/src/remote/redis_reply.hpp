// One answer of a Redis server, read by hiredis and bounded by us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernwright/result.hpp"

struct redisReader;

namespace kernwright {

struct RedisReply {
  enum class Kind : std::uint8_t { none, value, status, error, integer, nil };
  Kind kind = Kind::none;
  std::string text;  ///< Of a value, a status and an error: the server's own bytes.
};

/// Takes bytes as they come. Not thread-safe.
class RedisReplyReader {
 public:
  /// A value of more than `largest_value` bytes is refused when it is announced, before its bytes are taken in.
  explicit RedisReplyReader(std::size_t largest_value);

  enum class State : std::uint8_t {
    incomplete,  ///< More bytes are needed.
    complete,    ///< reply() is whole, and nothing stands behind it.
    too_large,   ///< The value that is announced is larger than the limit.
    broken,      ///< Not an answer to a command that asks for one value: another kind, not the protocol, or more than one answer.
  };
  /// After anything but `incomplete` only reply() and problem() may be called.
  State take(std::span<const std::byte> bytes);
  [[nodiscard]] RedisReply& reply() noexcept { return *reply_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }  ///< Of too_large and broken.

 private:
  State refuse(State state, std::string problem);
  /// What the beginning of the answer promises.
  State check_beginning();
  State parse();

  struct Free {
    void operator()(redisReader* reader) const noexcept;
  };
  std::size_t largest_value_;
  std::size_t taken_ = 0;
  std::string beginning_;
  std::unique_ptr<RedisReply> reply_;  // its address is hiredis's, so it stays where it is
  std::unique_ptr<redisReader, Free> reader_;
  std::string problem_;
};

}  // namespace kernwright
