#include "support/sparse_mla_reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/parallel.hpp"
#include "support/random.hpp"

namespace kernwright::support {
namespace {

constexpr std::size_t kLanes = 8;
/// Floats added up before their sum goes to a double: the rounding error of a sum of so few is about 1e-6 of its terms.
constexpr std::size_t kFloatTerms = 32;

void widen(std::span<const Bf16> from, std::span<float> to) {
  std::ranges::transform(from, to.begin(), [](Bf16 bits) { return bf16_to_float(bits); });
}

double dot(std::span<const float> a, std::span<const float> b) {
  double total = 0;
  std::size_t i = 0;
  for (; i + kFloatTerms <= a.size(); i += kFloatTerms) {
    std::array<float, kLanes> lanes{};
    for (std::size_t j = 0; j < kFloatTerms; j += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + j + lane] * b[i + j + lane];
    }
    total += static_cast<double>(std::reduce(lanes.begin(), lanes.end(), 0.0F));
  }
  for (; i < a.size(); ++i) total += static_cast<double>(a[i] * b[i]);
  return total;
}

/// The valid positions of one token.
std::vector<std::int32_t> selected_positions(const SparseMlaProblem& problem, std::int64_t token, RepeatedPositions repeated) {
  std::int64_t slots = problem.topk;
  if (!problem.topk_length.empty()) {
    slots = std::clamp<std::int64_t>(problem.topk_length[static_cast<std::size_t>(token)], 0, problem.topk);
  }
  const auto row = problem.indices.subspan(static_cast<std::size_t>(token * problem.topk), static_cast<std::size_t>(slots));
  std::vector<std::int32_t> positions;
  positions.reserve(row.size());
  std::ranges::copy_if(row, std::back_inserter(positions),
                       [&](std::int32_t position) { return position >= 0 && position < problem.kv_rows; });
  if (repeated == RepeatedPositions::once) {
    std::ranges::sort(positions);
    const auto repeats = std::ranges::unique(positions);
    positions.erase(repeats.begin(), repeats.end());
  }
  return positions;
}

/// Scratch of one token, kept between its heads: the selected rows as floats.
struct Gathered {
  std::size_t rows = 0;
  std::vector<float> values;  // [rows, d_qk]
};

struct HeadOutput {
  std::span<float> out;
  std::span<float> magnitude;
  double& lse;
  double& max_logit;
};

void attend(const SparseMlaProblem& problem, const Gathered& kv, std::span<const float> q, const float* sink, HeadOutput to) {
  const auto d_qk = static_cast<std::size_t>(problem.d_qk);
  const auto d_v = static_cast<std::size_t>(problem.d_v);
  if (kv.rows == 0) {
    std::ranges::fill(to.out, 0.0F);
    std::ranges::fill(to.magnitude, 0.0F);
    to.lse = std::numeric_limits<double>::infinity();
    to.max_logit = -std::numeric_limits<double>::infinity();
    return;
  }
  const std::span<const float> values(kv.values);
  std::vector<double> logits(kv.rows);
  for (std::size_t row = 0; row < kv.rows; ++row) {
    logits[row] = static_cast<double>(problem.sm_scale) * dot(q, values.subspan(row * d_qk, d_qk));
  }
  const bool numbers = std::ranges::none_of(logits, [](double logit) { return std::isnan(logit); });
  const double largest = numbers ? *std::ranges::max_element(logits) : std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  to.max_logit = largest;
  to.lse = largest + std::log(sum);
  // With a sink the denominator has one more term, exp(sink − largest); the weights below already stand over the whole of it.
  const double sink_factor = sink == nullptr ? 1.0 : 1.0 / (1.0 + std::exp(static_cast<double>(*sink) - to.lse));

  std::vector<double> out(d_v);
  std::vector<double> magnitude(d_v);
  std::vector<float> out_part(d_v);
  std::vector<float> magnitude_part(d_v);
  for (std::size_t first = 0; first < kv.rows; first += kFloatTerms) {
    std::ranges::fill(out_part, 0.0F);
    std::ranges::fill(magnitude_part, 0.0F);
    for (std::size_t row = first; row < std::min(first + kFloatTerms, kv.rows); ++row) {
      const auto weight = static_cast<float>(std::exp(logits[row] - largest) / sum);
      const float* value = values.data() + row * d_qk;
      for (std::size_t d = 0; d < d_v; ++d) {
        out_part[d] += weight * value[d];
        magnitude_part[d] += weight * std::abs(value[d]);
      }
    }
    for (std::size_t d = 0; d < d_v; ++d) {
      out[d] += static_cast<double>(out_part[d]);
      magnitude[d] += static_cast<double>(magnitude_part[d]);
    }
  }
  for (std::size_t d = 0; d < d_v; ++d) {
    to.out[d] = static_cast<float>(out[d] * sink_factor);
    to.magnitude[d] = static_cast<float>(magnitude[d] * sink_factor);
  }
}

}  // namespace

SparseMlaReference sparse_mla_reference(const SparseMlaProblem& problem, std::span<const std::int64_t> tokens, RepeatedPositions repeated) {
  const auto heads = static_cast<std::size_t>(problem.heads);
  const auto d_qk = static_cast<std::size_t>(problem.d_qk);
  const auto d_v = static_cast<std::size_t>(problem.d_v);
  SparseMlaReference reference;
  reference.tokens.assign(tokens.begin(), tokens.end());
  reference.heads = problem.heads;
  reference.d_v = problem.d_v;
  reference.out.resize(tokens.size() * heads * d_v);
  reference.magnitude.resize(tokens.size() * heads * d_v);
  reference.lse.resize(tokens.size() * heads);
  reference.max_logit.resize(tokens.size() * heads);
  parallel_ranges(static_cast<std::int64_t>(tokens.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    Gathered kv;
    std::vector<float> q(d_qk);
    for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
      const std::vector<std::int32_t> positions = selected_positions(problem, tokens[r], repeated);
      kv.rows = positions.size();
      kv.values.resize(positions.size() * d_qk);
      for (std::size_t i = 0; i < positions.size(); ++i) {
        widen(problem.kv.subspan(static_cast<std::size_t>(positions[i]) * d_qk, d_qk), std::span(kv.values).subspan(i * d_qk, d_qk));
      }
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t row = r * heads + h;
        widen(problem.q.subspan((static_cast<std::size_t>(tokens[r]) * heads + h) * d_qk, d_qk), q);
        attend(problem, kv, q, problem.attn_sink.empty() ? nullptr : &problem.attn_sink[h],
               {std::span(reference.out).subspan(row * d_v, d_v), std::span(reference.magnitude).subspan(row * d_v, d_v),
                reference.lse[row], reference.max_logit[row]});
      }
    }
  });
  return reference;
}

std::vector<std::int64_t> checked_tokens(std::int64_t tokens, std::int64_t group_size, std::uint64_t seed) {
  constexpr std::int64_t kFirst = 64;
  constexpr std::int64_t kRandom = 512;
  const std::int64_t last = 2 * std::max<std::int64_t>(group_size, 1);
  std::vector<std::int64_t> chosen;
  if (tokens <= kFirst + last + kRandom) {
    chosen.resize(static_cast<std::size_t>(std::max<std::int64_t>(tokens, 0)));
    std::iota(chosen.begin(), chosen.end(), std::int64_t{0});
    return chosen;
  }
  for (std::int64_t i = 0; i < kFirst; ++i) chosen.push_back(i);
  for (std::int64_t i = tokens - last; i < tokens; ++i) chosen.push_back(i);
  // Samples distinct tokens of those between, as index_walk.cpp does; kept sorted.
  std::vector<std::int64_t> random;
  SplitMix64 generator(stream_seed(seed, 0x636865636bULL));
  const std::int64_t between = tokens - kFirst - last;
  for (std::int64_t top = between - kRandom; top < between; ++top) {
    const auto drawn = static_cast<std::int64_t>(generator.next() % static_cast<std::uint64_t>(top + 1));
    const auto place = std::ranges::lower_bound(random, drawn);
    if (place == random.end() || *place != drawn) {
      random.insert(place, drawn);
    } else {
      random.push_back(top);  // Larger than every one before.
    }
  }
  for (const std::int64_t token : random) chosen.push_back(kFirst + token);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace kernwright::support
