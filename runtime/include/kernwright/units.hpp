// Strong types for quantities that are easily confused.
#pragma once

#include <compare>
#include <cstdint>

namespace kernwright {

/// A size in bytes.
struct Bytes {
  std::uint64_t count = 0;
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
};
constexpr Bytes kibibytes(std::uint64_t n) {
  return {n << 10};
}
constexpr Bytes mebibytes(std::uint64_t n) {
  return {n << 20};
}

/// A launch grid in blocks. x may reach 2^31 - 1, y and z 65535.
struct Grid {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  friend constexpr bool operator==(const Grid&, const Grid&) = default;
};

}  // namespace kernwright
