#include "support/paged_kv_reference.hpp"

#include <algorithm>

namespace kernwright::support {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

std::int64_t PagedIds::dense(std::int64_t token) const {
  if (v2p.empty()) return std::max<std::int64_t>(0, token);
  const auto virtual_pages = static_cast<std::int64_t>(v2p.size()) - 1;
  const bool inside = token >= 0 && token < virtual_pages * page_size;
  const std::int64_t row = inside ? token / page_size : virtual_pages;
  const std::int64_t offset = inside ? token % page_size : 0;
  return std::max<std::int64_t>(0, v2p[at(row)] * page_size * multiplier + offset);
}

std::int64_t PagedIds::page(std::int64_t token) const {
  if (v2p.empty()) return std::max<std::int64_t>(0, token) / page_size;
  const auto virtual_pages = static_cast<std::int64_t>(v2p.size()) - 1;
  const bool inside = token >= 0 && token < virtual_pages * page_size;
  return std::max<std::int64_t>(0, v2p[at(inside ? token / page_size : virtual_pages)]) * multiplier;
}

std::int64_t PagedBatch::length(std::int64_t lane) const {
  return std::max<std::int64_t>(lengths[at(lane)], 0);
}

std::int64_t PagedBatch::token(std::int64_t lane, std::int64_t i) const {
  const std::int64_t start = starts.empty() ? 0 : starts[at(lane)];
  return req_to_token[at(requests[at(lane)] * stride + start + i)];
}

std::vector<std::int64_t> PagedBatch::offsets() const {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t lane = 0; lane < lanes(); ++lane) offsets.push_back(offsets.back() + length(lane));
  return offsets;
}

void reference_block_table(const PagedIds& ids, const PagedBatch& batch, std::int64_t table_stride, std::vector<std::int64_t>& table) {
  for (std::int64_t lane = 0; lane < batch.lanes(); ++lane) {
    for (std::int64_t first = 0; first < batch.length(lane); first += ids.page_size) {
      table[at(lane * table_stride + first / ids.page_size)] = ids.page(batch.token(lane, first));
    }
  }
}

void reference_token_indices(const PagedIds& ids, const PagedBatch& batch, std::vector<std::int64_t>& out) {
  const std::vector<std::int64_t> offsets = batch.offsets();
  for (std::int64_t lane = 0; lane < batch.lanes(); ++lane) {
    for (std::int64_t i = 0; i < batch.length(lane); ++i) out[at(offsets[at(lane)] + i)] = ids.dense(batch.token(lane, i));
  }
}

void reference_translate(const PagedIds& ids, std::int64_t count, std::vector<std::int64_t>& list) {
  const std::int64_t done = std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(list.size()));
  for (std::int64_t i = 0; i < done; ++i) list[at(i)] = ids.dense(list[at(i)]);
}

std::vector<std::int64_t> reference_write_locations(const PagedIds& ids, std::span<const std::int64_t> tokens, std::int64_t capacity) {
  std::vector<std::int64_t> locations(at(capacity), 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) locations[i] = ids.dense(tokens[i]);
  return locations;
}

void reference_write_rows(const PagedRowParts& rows, std::span<const std::int64_t> dense, std::int64_t view_rows,
                          std::span<std::uint16_t> view) {
  const std::int64_t width = rows.latent_width + rows.rope_width;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const std::int64_t row = dense[i];
    if (row == 0 || row >= view_rows) continue;
    const auto from = static_cast<std::int64_t>(i);
    const auto to = view.begin() + row * width;
    std::copy_n(rows.latent.begin() + from * rows.latent_stride, rows.latent_width, to);
    std::copy_n(rows.rope.begin() + from * rows.rope_stride, rows.rope_width, to + rows.latent_width);
  }
}

}  // namespace kernwright::support
