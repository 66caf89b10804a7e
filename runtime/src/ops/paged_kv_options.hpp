// The options of the paged KV kernels: what is legal, and the constants that they become.
#pragma once

#include <vector>

#include "kernwright/paged_kv.hpp"
#include "kernwright/specialisation.hpp"

namespace kernwright {

Result<> check_options(const PagedKvOptions& options);

/// The parameters that every translating template has: page_size, multiplier, has_table.
Specialisation translation_specialisation(const PagedKvOptions& options);

/// What the op launches, in one order: block_table, token_indices, translate, write_locations, write_rows of dense locations, move_pages,
/// zero_pages; behind them write_rows of virtual locations where there is a table.
struct PagedKvKernel {
  const char* template_name;
  Specialisation specialisation;
};
std::vector<PagedKvKernel> kernels_of(const PagedKvOptions& options);

}  // namespace kernwright
