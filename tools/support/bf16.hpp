// bfloat16 on the CPU: the upper half of an IEEE binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace kernwright::support {

/// The bits of a bfloat16.
using Bf16 = std::uint16_t;

constexpr float bf16_to_float(Bf16 bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Round to nearest, ties to even. A NaN stays a NaN (made quiet); values past the largest bfloat16 become infinity.
constexpr Bf16 float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffU) > 0x7f80'0000U) return static_cast<Bf16>((bits >> 16) | 0x0040U);
  const std::uint32_t round = 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<Bf16>((bits + round) >> 16);
}

}  // namespace kernwright::support
