// One launch as the interpreter runs it, and what it answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/host/simt/abi.hpp"
#include "kernwright/units.hpp"

namespace kernwright::host {

struct LaunchRequest {
  const kw::simt::ObjectInterface* object = nullptr;
  const void* params = nullptr;
  Grid grid;
  unsigned threads = 0;                  ///< A block's.
  std::size_t dynamic_shared_bytes = 0;  ///< A block's.

  [[nodiscard]] std::uint64_t blocks() const noexcept { return std::uint64_t{grid.x} * grid.y * grid.z; }
  [[nodiscard]] kw::simt::Index block(std::uint64_t linear) const noexcept {
    return {static_cast<unsigned>(linear % grid.x), static_cast<unsigned>(linear / grid.x % grid.y),
            static_cast<unsigned>(linear / grid.x / grid.y)};
  }
  /// Everything but `thread`, `scheduler` and the shared memory's address.
  [[nodiscard]] kw::simt::ThreadContext context(kw::simt::Index block, const kw::simt::Primitives& primitives) const noexcept {
    return {.thread = {0, 0, 0},
            .block = block,
            .block_size = {threads, 1, 1},
            .grid_size = {grid.x, grid.y, grid.z},
            .dynamic_shared_bytes = static_cast<unsigned>(dynamic_shared_bytes),
            .dynamic_shared = nullptr,
            .primitives = &primitives,
            .scheduler = nullptr};
  }
};

/// A NaN in bf16 and in fp32: what nobody wrote shows in the output.
inline constexpr int kUnwrittenShared = 0xFF;
/// As PTX's strictest user, TMA with a 128-byte swizzle, wants it.
inline constexpr std::size_t kSharedAlignment = 1024;

}  // namespace kernwright::host
