// The shared cache of a fleet: whole entry files on a Redis server, authenticated with a secret that the fleet shares. docs/cache.md says
// what is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"
#include "kernwright/units.hpp"
#include "platform/clock.hpp"
#include "platform/logger.hpp"

namespace kernwright {

struct RemoteOptions {
  /// redis://[[user]:password@]host[:port][/database] or unix://[[user]:password@]/path[?db=database]. Never printed: it may hold a
  /// password.
  std::string url;
  std::string name_space = "kernwright";  ///< 1 to 64 of letters, digits, '.', '_', '-' and ':'.
  std::filesystem::path key_file;         ///< Holds the secret of 32 bytes, as 64 hex digits or as base64.
  Bytes largest_entry = mebibytes(16);    ///< A larger one is neither sent nor read; up to kLargestEntry.
  std::int64_t time_to_live_seconds = 0;  ///< What the server forgets an entry after; 0: never by itself.
};

/// Thread-safe. No call throws. A process forked from one that uses the tier may use it too: it opens connections of its own.
class RemoteTier {
 public:
  virtual ~RemoteTier() = default;

  struct Fetched {
    enum class Outcome : std::uint8_t {
      hit,          ///< `entry` is the whole of an entry file, as somebody with the secret stored it under this key.
      miss,         ///< The server has nothing under this key.
      bad,          ///< What it has is not authentic, is too large or is no value: nothing of it is given.
      unavailable,  ///< No answer in time, a server that refuses, or one that is not asked for now.
    };
    Outcome outcome = Outcome::unavailable;
    std::vector<std::byte> entry;
    std::string problem;  ///< Why it is bad or unavailable.
  };
  /// Takes at most 50 ms. After failures in a row the server is not asked for a while, and the answer is `unavailable` at once.
  virtual Fetched fetch(const EntryKey& key) = 0;

  /// Returns at once. A background thread sends the entry; where too much waits to be sent, or the server takes nothing, it is dropped and
  /// counted. What still waits when the tier is destroyed is dropped: flush() first where it matters.
  virtual void store(const EntryKey& key, std::shared_ptr<const std::vector<std::byte>> entry) = 0;

  /// Waits until nothing waits to be sent, or until the limit.
  virtual void flush(double limit_seconds) = 0;

  struct Statistics {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t bad = 0;
    std::uint64_t unavailable = 0;        ///< Those that were answered at once included.
    std::uint64_t lost_microseconds = 0;  ///< What fetches that ended bad or unavailable took, together.
    std::uint64_t stored = 0;
    std::uint64_t store_failures = 0;    ///< Sent in vain: refused by the server, or not sent in time.
    std::uint64_t dropped = 0;           ///< Never sent: too much waiting, too large, or a server that is not asked for now.
    std::uint64_t breaker_openings = 0;  ///< How often fetches or stores were given up for a while.
  };
  [[nodiscard]] virtual Statistics statistics() const = 0;
};

/// Parses and checks the settings and reads the key file; never connects. invalid_argument says which setting is wrong, io and not_found
/// that the key file cannot be read, unsupported that this build has no remote tier (CMake's KERNWRIGHT_REMOTE).
Result<std::shared_ptr<RemoteTier>> open_remote_tier(const RemoteOptions& options, Logger logger, std::shared_ptr<Clock> clock);

}  // namespace kernwright
