// Seeded random numbers that are the same on every machine and for every number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "support/bf16.hpp"

namespace kernwright::support {

/// SplitMix64 ("Fast splittable pseudorandom number generators", OOPSLA 2014).
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}
  constexpr std::uint64_t next() noexcept {
    state_ += 0x9e37'79b9'7f4a'7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound), bound > 0, without bias ("Fast random integer generation in an interval", 2019).
  constexpr std::uint32_t below(std::uint32_t bound) noexcept {
    std::uint64_t product = (next() >> 32) * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = (next() >> 32) * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint64_t state_;
};

/// A seed for one of several independent streams of numbers under one user's seed.
constexpr std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) noexcept {
  SplitMix64 mix(seed ^ (stream * 0xd134'2543'de82'ef95ULL));
  mix.next();
  return mix.next();
}

/// `count` values of N(0, deviation²), rounded to bfloat16. A value is the midpoint of one of 65,536 equally likely slices of the
/// distribution, so none is farther out than about 4.3 deviations. Threaded; deterministic for (seed, stream).
std::vector<Bf16> random_normal_bf16(std::int64_t count, std::uint64_t seed, std::uint64_t stream, float deviation = 1.0F);

}  // namespace kernwright::support
