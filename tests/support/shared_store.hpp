// One store for all tests of a build tree, so that each specialisation is compiled once.
#pragma once

#include "cases/sparse_mla_case.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright::tests {

/// The store is KERNWRIGHT_TEST_STORE, which the build sets to a folder of its own.
Runtime shared_store_runtime();

/// The first tile of the fall-back order that is of this variant, legal for the case and within the host's limits.
std::optional<Tile> first_tile(const Runtime& runtime, const char* variant, const cases::SparseMlaCase& c);

}  // namespace kernwright::tests
