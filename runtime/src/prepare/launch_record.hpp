// What a runtime has prepared so far, as the launches of a list.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernwright/kernel.hpp"
#include "launch_list/launch_list.hpp"

namespace kernwright {

/// Thread-safe.
class LaunchRecord {
 public:
  /// `tile_asked` by name; empty where the tables or the manifest chose it, which they will do again.
  void add(const PrepareReport& prepared, const std::optional<Tile>& tile_asked);
  [[nodiscard]] LaunchList list() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Launch> launches_;  // by all of their words
};

}  // namespace kernwright
