// A connection to a server of values: the seam between the tier's rules and Redis, so that tests can put a server of their own there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "remote/deadline.hpp"

namespace kernwright {

/// Not thread-safe. Connects when it is first used and again where that broke. Every call ends by its deadline.
class RemoteLink {
 public:
  virtual ~RemoteLink() = default;

  struct Value {
    enum class Outcome : std::uint8_t {
      present,
      absent,
      unusable,     ///< The server answered, but not with a value that may be read: another type, too large, not its protocol.
      unavailable,  ///< It did not answer in time, broke off, or said that it cannot.
    };
    Outcome outcome = Outcome::unavailable;
    std::vector<std::byte> bytes;
    std::string problem;  ///< Of the last two; printable.
  };
  virtual Value get(const std::string& name, Deadline deadline) = 0;

  /// Why the server has not taken the value; empty: it has it.
  virtual std::string set(const std::string& name, std::span<const std::byte> value, Deadline deadline) = 0;
};

}  // namespace kernwright
