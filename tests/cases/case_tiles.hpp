// Which tiles a case can run with. Uses doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/sparse_mla_case.hpp"

namespace kernwright::cases {

/// The fall-back order's tiles that are legal for the specialisation and within the device's limits, `asked` in front of them where it is
/// given; none where `asked` is not legal.
std::vector<Tile> fitting_tiles(const Runtime& runtime, DeviceId device, const std::string& template_name,
                                const Specialisation& specialisation, const std::optional<Tile>& asked = std::nullopt);
/// The same of sparse MLA prefill for a case.
std::vector<Tile> fitting_tiles(const Runtime& runtime, DeviceId device, const SparseMlaCase& c,
                                const std::optional<Tile>& asked = std::nullopt);

/// The first of them that is of this variant.
std::optional<Tile> first_tile(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, const char* variant,
                               const std::optional<Tile>& asked = std::nullopt);

}  // namespace kernwright::cases
