#include "support/union_sizes.hpp"

#include <algorithm>
#include <numeric>

namespace kernwright::support {
namespace {

/// Calls visit(token, position) for every valid slot.
template <class Visit>
void each_slot(const Selection& s, Visit visit) {
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    const std::int64_t length =
        s.topk_length.empty() ? s.topk : std::clamp<std::int64_t>(s.topk_length[static_cast<std::size_t>(token)], 0, s.topk);
    for (std::int64_t slot = 0; slot < length; ++slot) {
      const std::int32_t position = s.indices[static_cast<std::size_t>(token * s.topk + slot)];
      if (position >= 0 && position < s.kv_rows) visit(token, position);
    }
  }
}

}  // namespace

std::vector<std::int64_t> union_sizes(const Selection& selection, int group_size) {
  const auto groups = static_cast<std::size_t>((selection.tokens + group_size - 1) / group_size);
  std::vector<std::int64_t> sizes(groups, 0);
  // The last group that selected a row, so that no set has to be cleared between groups.
  std::vector<std::int64_t> owner(static_cast<std::size_t>(std::max<std::int64_t>(selection.kv_rows, 0)), -1);
  each_slot(selection, [&](std::int64_t token, std::int32_t position) {
    const std::int64_t group = token / group_size;
    std::int64_t& last = owner[static_cast<std::size_t>(position)];
    if (last == group) return;
    last = group;
    ++sizes[static_cast<std::size_t>(group)];
  });
  return sizes;
}

std::int64_t selected_slots(const Selection& selection) {
  std::int64_t slots = 0;
  each_slot(selection, [&](std::int64_t, std::int32_t) { ++slots; });
  return slots;
}

SizeSummary summarize(std::vector<std::int64_t> sizes) {
  SizeSummary summary;
  if (sizes.empty()) return summary;
  std::ranges::sort(sizes);
  const auto at = [&](std::size_t percent) { return sizes[(sizes.size() * percent + 99) / 100 - 1]; };
  summary.groups = static_cast<std::int64_t>(sizes.size());
  summary.p50 = at(50);
  summary.p99 = at(99);
  summary.largest = sizes.back();
  summary.mean = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})) / static_cast<double>(sizes.size());
  return summary;
}

double rows_per_token(std::int64_t gathered_rows, std::int64_t tokens, int group_size, std::int64_t heads, std::int64_t tile_rows) {
  if (tokens <= 0) return 0;
  const std::int64_t passes = (group_size * heads + tile_rows - 1) / tile_rows;
  return static_cast<double>(gathered_rows) * static_cast<double>(passes) / static_cast<double>(tokens);
}

}  // namespace kernwright::support
