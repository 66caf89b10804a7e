// A reference of sparse MLA prefill as a file, so that it is computed once a shape and not once a process.
#pragma once

#include <filesystem>
#include <functional>

#include "kernwright/result.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::support {

/// Replaces the file whole. Errors: io.
Result<> write_reference(const std::filesystem::path& file, const SparseMlaReference& reference);
/// Errors: not_found; io; malformed where it is no such file.
Result<SparseMlaReference> read_reference(const std::filesystem::path& file);

/// From the file, or where that cannot be read computed and written there for the next process. Errors: io.
Result<SparseMlaReference> stored_reference(const std::filesystem::path& file, const std::function<SparseMlaReference()>& compute);

}  // namespace kernwright::support
