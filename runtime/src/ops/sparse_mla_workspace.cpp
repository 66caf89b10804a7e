#include "ops/sparse_mla_workspace.hpp"

#include <algorithm>

namespace kernwright {
namespace {

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}
constexpr std::uint64_t kIndexBytes = 4;
constexpr std::uint64_t mask_bytes(int group_size) {
  return static_cast<std::uint64_t>(group_size + 7) / 8;
}

}  // namespace

UnionLayout union_layout(std::int64_t groups, int group_size, std::int64_t topk, std::int64_t kv_rows) noexcept {
  UnionLayout layout;
  layout.capacity = std::min(static_cast<std::int64_t>(group_size) * topk, kv_rows);
  const auto count = static_cast<std::uint64_t>(groups);
  const std::uint64_t rows = count * static_cast<std::uint64_t>(layout.capacity);
  layout.counts_offset = aligned(sizeof(std::uint32_t));
  layout.rows_offset = layout.counts_offset + aligned(count * kIndexBytes);
  layout.masks_offset = layout.rows_offset + aligned(rows * kIndexBytes);
  layout.size = Bytes{layout.masks_offset + aligned(rows * mask_bytes(group_size))};
  return layout;
}

std::int64_t groups_that_fit(Bytes size, std::int64_t groups, int group_size, std::int64_t topk, std::int64_t kv_rows) noexcept {
  // The parts' alignment costs less than 4 x 256 bytes, so the division is right to within a few groups.
  const UnionLayout one = union_layout(1, group_size, topk, kv_rows);
  const std::uint64_t per_group = kIndexBytes + static_cast<std::uint64_t>(one.capacity) * (kIndexBytes + mask_bytes(group_size));
  auto fitting = static_cast<std::int64_t>(std::min<std::uint64_t>(static_cast<std::uint64_t>(groups), size.count / per_group));
  while (fitting > 0 && union_layout(fitting, group_size, topk, kv_rows).size > size) --fitting;
  return fitting;
}

Bytes union_workspace(Bytes limit, std::int64_t groups, int group_size, std::int64_t topk, std::int64_t kv_rows) noexcept {
  if (groups_that_fit(limit, groups, group_size, topk, kv_rows) == groups) return union_layout(groups, group_size, topk, kv_rows).size;
  return Bytes{limit.count / kWorkspaceAlignment * kWorkspaceAlignment};
}

}  // namespace kernwright
