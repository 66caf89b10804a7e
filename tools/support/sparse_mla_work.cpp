#include "support/sparse_mla_work.hpp"

#include <algorithm>
#include <vector>

namespace kernwright::support {
namespace {

constexpr double kElementBytes = 2;  // bf16
constexpr double kIndexBytes = 4;

}  // namespace

SparseMlaWork sparse_mla_work(std::span<const std::int32_t> indices, std::span<const std::int32_t> topk_length, std::int64_t tokens,
                              std::int64_t topk, std::int64_t kv_rows, std::int64_t heads, std::int64_t d_qk, std::int64_t d_v,
                              int group_size) {
  const std::int64_t group = std::max(group_size, 1);
  SparseMlaWork work;
  // The last group that selected a row, so that no set has to be cleared between groups.
  std::vector<std::int64_t> seen(static_cast<std::size_t>(std::max<std::int64_t>(kv_rows, 0)), -1);
  std::int64_t valid = 0, groups = 0, selected = 0;
  for (std::int64_t first = 0; first < tokens; first += group, ++groups) {
    const std::int64_t last = std::min(first + group, tokens);
    for (std::int64_t slot = first * topk; slot < last * topk; ++slot) {
      const std::int32_t position = indices[static_cast<std::size_t>(slot)];
      if (position < 0 || position >= kv_rows) continue;
      if (!topk_length.empty() && slot % topk >= topk_length[static_cast<std::size_t>(slot / topk)]) continue;
      ++valid;
      std::int64_t& owner = seen[static_cast<std::size_t>(position)];
      selected += owner < 0 ? 1 : 0;
      work.gathered_rows += group == 1 || owner != groups ? 1 : 0;
      owner = groups;
    }
  }
  if (valid > 0 && groups > 0) {
    const double a_group = static_cast<double>(work.gathered_rows) / static_cast<double>(groups);
    work.relative_union = a_group / (static_cast<double>(valid) / static_cast<double>(tokens));
  }
  work.operations = 2.0 * static_cast<double>(d_qk + d_v) * static_cast<double>(heads * group) * static_cast<double>(work.gathered_rows);
  work.bytes = kElementBytes * static_cast<double>(tokens * heads) * static_cast<double>(d_qk + d_v) +
               kIndexBytes * static_cast<double>(tokens * topk) + kElementBytes * static_cast<double>(selected * d_qk);
  return work;
}

}  // namespace kernwright::support
