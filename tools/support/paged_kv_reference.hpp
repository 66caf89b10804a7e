// The paged KV kernels by their definition, in plain 64-bit arithmetic on the CPU. It shares nothing with the kernels.
// docs/paged_kv.md has the words.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kernwright::support {

/// "Translation", word for word. An empty v2p: a static pool.
struct PagedIds {
  std::vector<std::int64_t> v2p;  ///< [V + 1], the tombstone row last.
  std::int64_t page_size = 1;
  std::int64_t multiplier = 1;

  [[nodiscard]] std::int64_t dense(std::int64_t token) const;
  [[nodiscard]] std::int64_t page(std::int64_t token) const;  ///< Of a block table.
};

/// What a step's requests are, in host memory.
struct PagedBatch {
  std::vector<std::int64_t> req_to_token;  ///< [slots, stride]
  std::int64_t stride = 0;
  std::vector<std::int64_t> requests, lengths;
  std::vector<std::int64_t> starts;  ///< Or empty: 0.

  [[nodiscard]] std::int64_t lanes() const { return static_cast<std::int64_t>(lengths.size()); }
  [[nodiscard]] std::int64_t length(std::int64_t lane) const;                 ///< 0 where it is a padded lane.
  [[nodiscard]] std::int64_t token(std::int64_t lane, std::int64_t i) const;  ///< Token i of the lane's request.
  [[nodiscard]] std::vector<std::int64_t> offsets() const;                    ///< [lanes + 1]: requests back to back.
};

/// table[lane, p] for the pages of each request; other cells stay. The table has rows of `table_stride`.
void reference_block_table(const PagedIds& ids, const PagedBatch& batch, std::int64_t table_stride, std::vector<std::int64_t>& table);
/// out[offsets[lane] + i]; other elements stay.
void reference_token_indices(const PagedIds& ids, const PagedBatch& batch, std::vector<std::int64_t>& out);
/// The first `count`, in place; a count outside the list is clamped.
void reference_translate(const PagedIds& ids, std::int64_t count, std::vector<std::int64_t>& list);
/// `capacity` of them: those of the tokens, then zeros.
std::vector<std::int64_t> reference_write_locations(const PagedIds& ids, std::span<const std::int64_t> tokens, std::int64_t capacity);

/// Rows of two-byte elements in two parts.
struct PagedRowParts {
  std::span<const std::uint16_t> latent, rope;
  std::int64_t latent_width = 0, latent_stride = 0, rope_width = 0, rope_stride = 0;
};
/// Row i into the view's row dense[i], but for row 0 and rows outside. `view` begins at the layer's first element.
void reference_write_rows(const PagedRowParts& rows, std::span<const std::int64_t> dense, std::int64_t view_rows,
                          std::span<std::uint16_t> view);

}  // namespace kernwright::support
