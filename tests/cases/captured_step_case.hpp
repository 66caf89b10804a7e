// A decode step that is captured once and replayed while requests come and go and pages move, beside the same step run eagerly. The same
// cases for the host interpreter, where a capture is the launches with the arguments that they had, and for a CUDA device's graphs. Uses
// doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "kernwright/runtime.hpp"

namespace kernwright::cases {

/// Launches on a stream. What it holds, it holds by value: a graph knows the addresses and shapes of its capture, nothing later.
using Launches = std::function<Result<>(StreamHandle)>;
/// Captures launches on a stream; what it answers replays them.
using Capture = std::function<std::function<void(StreamHandle)>(StreamHandle, const Launches&)>;

/// The host's: the launches again, with the arguments that they had when they were captured.
Capture frozen_arguments();

enum class ReplayFault : std::uint8_t {
  none,
  stale_tail,           ///< The write locations behind the last request keep what an earlier step left there.
  block_table_rebound,  ///< The next block table goes to other memory, as if a captured step could be told of it.
  indices_rebound,      ///< The translated indices do, instead of lying where they were.
};
std::string_view to_string(ReplayFault fault) noexcept;

inline constexpr int kNoDifference = -1;
/// Captures the first step of a pool with 3 layers, then goes on with other lengths, other requests, fewer and more of them, other pages,
/// and compaction in between. Each step is run eagerly, checked against the reference, and replayed. Answers the first step whose replay
/// had other bits than the eager run, and ends there.
int first_replay_that_differs(const Runtime& runtime, DeviceId device, const Capture& capture, ReplayFault fault);

/// By the runtime's counters, on a static and on a unified pool: the step itself, which a graph holds, has the same launches on both; its
/// preparation has one more on the unified one, the write locations with their tail.
void check_launches_of_a_step(const Runtime& runtime, DeviceId device);

/// Writes, attention (dense and sparse), compaction, page moves and zeroing in the last pages of a pool of so many bytes. Answers the first
/// element of the pool that they wrote to.
std::int64_t far_pages_are_right(const Runtime& runtime, DeviceId device, Bytes pool);

}  // namespace kernwright::cases
