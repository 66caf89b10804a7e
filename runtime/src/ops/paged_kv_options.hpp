// The options of the paged KV kernels: what is legal, and the constants that they become.
#pragma once

#include "kernwright/paged_kv.hpp"

namespace kernwright {

Result<> check_options(const PagedKvOptions& options);

/// The parameters that every translating template has: page_size, multiplier, has_table.
Specialisation translation_specialisation(const PagedKvOptions& options);

}  // namespace kernwright
