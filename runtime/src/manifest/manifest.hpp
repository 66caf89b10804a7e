// A template's manifest: parameters and legal values, variants and tile axes, the fall-back order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/target.hpp"
#include "kernwright/tile.hpp"

namespace kernwright {

struct ManifestParameter {
  std::string name;  ///< A C++ identifier: it becomes a member of kw::Specialisation.
  bool is_dtype = false;
  std::vector<std::int64_t> values;  ///< Legal integers; empty: the range.
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
  std::vector<DType> dtypes;  ///< Legal dtypes.
  std::optional<ParameterValue> default_value;
};

/// Why the parameter cannot have this value, as the end of a sentence "parameter 'x' …", with the legal ones; empty where it can.
std::string parameter_value_problem(const ManifestParameter& parameter, const ParameterValue& value);

struct ManifestVariant {
  std::string name;                  ///< A C++ identifier: it becomes an enumerator of kw::Variant.
  std::string source;                ///< Virtual name of the .cu.
  int minimum_capability = 80;       ///< 10·major + minor.
  std::vector<std::string> targets;  ///< Exact targets it is limited to (sm_90a for wgmma); empty: every one from minimum_capability.
  bool host = true;                  ///< Runs on the host backend.
  std::vector<std::int64_t> block_m, block_n, stages, warps;  ///< The tile axes.
};

struct Manifest {
  std::string name;   ///< "sparse_mla/prefill"
  std::string entry;  ///< extern "C" kernel taking one parameter struct by value.
  std::string plan;   ///< Virtual name of the header that defines kw::make_plan.
  std::vector<ManifestParameter> parameters;
  std::vector<ManifestVariant> variants;
  std::vector<Tile> fall_back;  ///< In order; the first that is legal is the default.

  /// Fills defaults and puts the parameters into the manifest's order; invalid_argument names the parameter, what came and what is legal.
  [[nodiscard]] Result<Specialisation> complete(const Specialisation& given) const;
  /// invalid_argument with the legal values where the variant or an axis value is not offered.
  [[nodiscard]] Result<> check_tile(const Tile& tile) const;
  [[nodiscard]] const ManifestVariant* variant(std::string_view name) const;
  [[nodiscard]] bool offers(const ManifestVariant& variant, const Target& target) const;
  /// `asked` first, then the fall-back order: inside its variant what stands behind it, then the other variants in order. Only tiles
  /// whose variant is offered on the target. Without `asked`: the whole fall-back order.
  [[nodiscard]] std::vector<Tile> candidates(const std::optional<Tile>& asked, const Target& target) const;
};

Result<Manifest> parse_manifest(std::string_view toml, std::string_view file_name);

}  // namespace kernwright
