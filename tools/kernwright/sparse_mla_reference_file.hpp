// A reference of sparse MLA prefill as a file, so that it is computed once a shape and not once a process.
#pragma once

#include <filesystem>

#include "kernwright/result.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::tool {

/// Replaces the file whole. Errors: io.
Result<> write_reference(const std::filesystem::path& file, const support::SparseMlaReference& reference);
/// Errors: not_found; io; malformed where it is no such file.
Result<support::SparseMlaReference> read_reference(const std::filesystem::path& file);

}  // namespace kernwright::tool
