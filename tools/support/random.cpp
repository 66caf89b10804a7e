#include "support/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "support/parallel.hpp"

namespace kernwright::support {
namespace {

constexpr std::size_t kSlices = 65'536;

/// The normal quantile of each slice's midpoint, times `deviation`, by Newton's method on the complementary error function. The upper half
/// is the lower one mirrored, so the table's mean is exactly 0.
std::vector<Bf16> quantile_table(float deviation) {
  std::vector<Bf16> table(kSlices);
  double x = -4.4;
  for (std::size_t i = 0; i < kSlices / 2; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kSlices);
    for (int step = 0; step < 50; ++step) {
      const double excess = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
      const double density = std::exp(-0.5 * x * x) * 0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2;
      // Halley's correction keeps the first slices, where the density is tiny, from overshooting.
      const double newton = excess / density;
      const double change = newton / (1.0 + 0.5 * x * newton);
      x -= change;
      if (std::abs(change) < 1e-12) break;
    }
    table[i] = float_to_bf16(static_cast<float>(x) * deviation);
    table[kSlices - 1 - i] = float_to_bf16(static_cast<float>(-x) * deviation);
  }
  return table;
}

}  // namespace

std::vector<Bf16> random_normal_bf16(std::int64_t count, std::uint64_t seed, std::uint64_t stream, float deviation) {
  const std::vector<Bf16> table = quantile_table(deviation);
  std::vector<Bf16> values(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  // Each chunk has a stream of numbers of its own: the result does not depend on how chunks fall to threads.
  constexpr std::int64_t kChunk = 1 << 16;
  const std::uint64_t base = stream_seed(seed, stream);
  parallel_ranges(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    SplitMix64 random(stream_seed(base, static_cast<std::uint64_t>(begin / kChunk)));
    for (std::int64_t i = begin; i < end; i += 4) {
      std::uint64_t bits = random.next();
      for (std::int64_t j = i; j < std::min(i + 4, end); ++j, bits >>= 16) {
        values[static_cast<std::size_t>(j)] = table[bits & 0xffffU];
      }
    }
  });
  return values;
}

}  // namespace kernwright::support
