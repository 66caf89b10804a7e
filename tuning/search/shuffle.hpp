// A random order that is the same on every machine.
#pragma once

#include <cstdint>
#include <utility>

#include "support/random.hpp"

namespace kernwright::tuning {

/// Fisher-Yates. std::shuffle's order is the library's affair; this one is the seed's alone.
template <class Items>
void shuffle(Items& items, std::uint64_t seed) {
  support::SplitMix64 random(seed);
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[random.below(static_cast<std::uint32_t>(i))]);
  }
}

}  // namespace kernwright::tuning
