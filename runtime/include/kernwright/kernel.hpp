// A prepared kernel: loaded, fitted, ready to launch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "kernwright/device.hpp"
#include "kernwright/plan.hpp"
#include "kernwright/result.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/tile.hpp"
#include "kernwright/units.hpp"

namespace kernwright {

enum class CacheSource : std::uint8_t { memory, store, remote, built };
std::string_view to_string(CacheSource source) noexcept;  ///< "memory", "store", "remote", "built"

struct ResourceUse {
  int registers = 0;  ///< A thread; 0 on host.
  Bytes static_shared;
  Bytes stack_frame;   ///< Local memory a thread.
  Bytes spill_stores;  ///< From the compiler's report.
  Bytes spill_loads;
};

/// What prepare did.
struct PrepareReport {
  std::string template_name;
  Specialisation specialisation;
  Target target = Target::host();
  DeviceId device;
  Tile tile_asked;
  Tile tile_fitted;
  std::string fit_reason;     ///< Empty where the tile asked for fitted; otherwise why it did not.
  bool fit_recorded = false;  ///< The answer came from a fit written earlier.
  CacheSource cache = CacheSource::built;
  double compile_ms = 0;  ///< 0 unless it was built then. A kernel that was prepared before comes with its first report.
  std::string key;        ///< The artifact's entry name in the store, 32 hex digits.
  ResourceUse resources;
};

/// A shared handle, cheap to copy, usable from any thread. Outlives the Runtime that made it.
class Kernel {
 public:
  struct State;
  explicit Kernel(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

  [[nodiscard]] const Plan& plan() const noexcept;
  [[nodiscard]] const PrepareReport& report() const noexcept;

  /// Enqueues one launch on `stream`, which must be a stream of the kernel's device. `params` is the entry's parameter struct, copied
  /// before the call returns. Legal while the stream captures. On cuda there is no lock, no allocation and no table on the way, unless the
  /// launch is refused: for resources an op then steps down. The interpreter locks and allocates beyond one block of one thread.
  /// Errors: invalid_argument (size of `params`, empty or too large grid, stream of another device), does_not_fit (the driver refused
  /// it for resources), launch_failed, device_fault, capturing, out_of_memory, driver_unavailable, unsupported. On host the launch has
  /// finished when the call returns.
  template <class Params>
  [[nodiscard]] Result<> launch(const Grid& grid, const Params& params, StreamHandle stream) const {
    static_assert(std::is_trivially_copyable_v<Params>);
    return launch_bytes(grid, &params, sizeof(Params), stream);
  }
  [[nodiscard]] Result<> launch_bytes(const Grid& grid, const void* params, std::size_t params_bytes, StreamHandle stream) const;

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace kernwright
