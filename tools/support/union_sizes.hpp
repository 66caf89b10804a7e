// How many rows the tokens of a group select together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kernwright::support {

/// What tokens select: indices [tokens, topk], dense; positions outside [0, kv_rows) are empty, and so are slots from topk_length [tokens]
/// on, where that is not empty.
struct Selection {
  std::span<const std::int32_t> indices, topk_length;
  std::int64_t tokens = 0, topk = 0, kv_rows = 0;
};

/// The distinct rows of each group of so many neighbouring tokens; the last group may be smaller.
std::vector<std::int64_t> union_sizes(const Selection& selection, int group_size);
/// The valid slots of all tokens, each repetition counted.
std::int64_t selected_slots(const Selection& selection);

struct SizeSummary {
  std::int64_t groups = 0, p50 = 0, p99 = 0, largest = 0;
  double mean = 0;
};
/// Percentiles by nearest rank: the smallest size that so many per cent of the groups do not exceed.
SizeSummary summarize(std::vector<std::int64_t> sizes);

/// Rows that a token costs: its group's rows are gathered once for every `tile_rows` rows of group_size × heads that are begun.
double rows_per_token(std::int64_t gathered_rows, std::int64_t tokens, int group_size, std::int64_t heads, std::int64_t tile_rows);

}  // namespace kernwright::support
