// Paged KV kernels against their definition in plain 64-bit arithmetic. Uses doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernwright/paged_kv.hpp"
#include "support/paged_kv_reference.hpp"

namespace kernwright::cases {

struct PagedKvCase {
  int page_size = 16;
  int multiplier = 1;
  bool unified = true;
  DType token_dtype = DType::i32;
  DType request_dtype = DType::i64;
  DType index_dtype = DType::i32;
  [[nodiscard]] std::string text() const;
};
/// Page sizes 1, 16, 64, 128 and multipliers 1, 3, 24, 61, unified and static, every integer type.
std::vector<PagedKvCase> paged_kv_cases();

/// Lengths 0, 1, ps - 1, ps, ps + 1 and long, padded lanes, ids that are negative, beyond every page, or not mapped; what must not be
/// written holds a pattern before and after.
void block_tables_are_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c);
/// Requests of so many pages that every block of theirs writes cells several times over.
void long_block_tables_are_right(const Runtime& runtime, DeviceId device, std::int64_t pages);
/// A page id times the page size is the dense id of the page's first token.
void block_tables_agree_with_token_indices(const Runtime& runtime, DeviceId device, const PagedKvCase& c);
void token_indices_are_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c);
void translation_in_place_is_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c);
void write_locations_are_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c);
/// Rows by virtual and by dense location, in every layer's view; the sink and everything else keep their bytes.
void rows_land_where_they_should(const Runtime& runtime, DeviceId device, const PagedKvCase& c);
void pages_move_and_are_zeroed(const Runtime& runtime, DeviceId device);
/// The kernels made with a table, given none, against those made without: the same bytes.
void a_null_table_changes_nothing(const Runtime& runtime, DeviceId device, int page_size);

}  // namespace kernwright::cases
