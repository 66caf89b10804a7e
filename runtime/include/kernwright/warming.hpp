// Warm: compiling ahead of time what a process will prepare.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/device.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/plan.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/target.hpp"
#include "kernwright/tile.hpp"

namespace kernwright {

/// What one prepare would ask for on a device of a target that need not be here.
struct WarmRequest {
  std::string template_name;
  Specialisation specialisation;
  Target target = Target::host();
  std::optional<Tile> tile = std::nullopt;  ///< Else the tuning tables', else the manifest's first that is legal.
  bool fall_backs = true;                   ///< Also every later candidate that the target's limits allow; otherwise the first that fits.
  /// A device of this process in place of `target`: its limits, and its own rows of the tuning tables.
  std::optional<DeviceId> device = std::nullopt;
};

enum class WarmOutcome : std::uint8_t {
  built,    ///< Compiled by this call.
  hit,      ///< It was there already.
  skipped,  ///< Above the target's limits, by its plan or by the compiler's word: `reason`.
  failed,   ///< `reason`, with the compiler's words.
};
std::string_view to_string(WarmOutcome outcome) noexcept;  ///< "built", "hit", "skipped", "failed"

/// One kernel, or a request that failed as a whole: for its words, its plans, or since no tile fits.
struct WarmedItem {
  std::string template_name;
  Specialisation specialisation;  ///< Complete, unless the request failed for it.
  Target target = Target::host();
  Tile tile;  ///< Without a variant where it is a request that failed.
  WarmOutcome outcome = WarmOutcome::failed;
  std::string reason;  ///< Empty where it was built or hit.
  std::string key;     ///< The entry's name in the store; empty where there is none.
  CacheSource cache = CacheSource::built;
  double compile_ms = 0;  ///< 0 unless built.
  ResourceUse resources;
  Plan plan;
};

/// How far a warming has come.
struct WarmProgress {
  bool planning = true;                  ///< Plan tables are being made, and `done` and `total` count those; afterwards kernels.
  std::size_t done = 0, total = 0;       ///< Without `skipped` ones: they are known without work.
  std::vector<std::string> compiling;    ///< What is being worked on, one line each.
  std::optional<double> seconds_left;    ///< By the compiles so far; empty until one has finished.
  const WarmedItem* finished = nullptr;  ///< The item that this call tells of; null where something began.
};

struct WarmOptions {
  int jobs = 0;  ///< Compiles at once; 0: RuntimeOptions::compiles_at_once, which is also the most that run.
  /// Called from the threads that compile, one call at a time; compiling waits for it. What it throws is logged and goes no further.
  std::function<void(const WarmProgress&)> progress = nullptr;
  /// Set, nothing more is begun; what is being compiled is finished. Must outlive the call.
  const std::atomic<bool>* cancel = nullptr;
};

struct WarmSummary {
  /// Requests that failed, then kernels in the requests' order and, within one, in the candidates'. Equal ones stand once.
  std::vector<WarmedItem> items;
  std::size_t built = 0, hit = 0, skipped = 0, failed = 0;  ///< Of `items`.
  std::size_t plans_built = 0, plans_hit = 0;               ///< Plan tables, which are artifacts of their own.
  std::size_t not_begun = 0;   ///< Kernels left out because of `cancel`; where it came while plans were made, those known by then.
  bool cancelled = false;      ///< `cancel` left something out.
  std::size_t not_stored = 0;  ///< Artifacts that the store did not take: they were compiled in vain.
  int jobs = 0;                ///< As used.
  double seconds = 0;          ///< Wall time.
};

}  // namespace kernwright
