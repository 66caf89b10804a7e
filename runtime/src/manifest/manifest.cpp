// What a manifest allows.
#include "manifest/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright {
namespace {

/// "a, b, c" of the items' texts.
template <class Items, class TextOf>
std::string joined(const Items& items, TextOf text_of) {
  std::string line;
  for (const auto& item : items) {
    if (!line.empty()) line += ", ";
    line += text_of(item);
  }
  return line;
}

std::string joined_numbers(const std::vector<std::int64_t>& numbers) {
  return joined(numbers, [](std::int64_t number) { return std::to_string(number); });
}

template <class Items>
std::string joined_names(const Items& items) {
  return joined(items, [](const auto& item) { return item.name; });
}

std::string legal_values(const ManifestParameter& parameter) {
  if (parameter.is_dtype) return "dtypes are: " + joined(parameter.dtypes, [](DType dtype) { return to_string(dtype); });
  if (!parameter.values.empty()) return "integers are: " + joined_numbers(parameter.values);
  return fmt::format("integers are {} to {}", parameter.minimum, parameter.maximum);
}

bool is_legal(const ManifestParameter& parameter, const ParameterValue& value) {
  if (std::holds_alternative<DType>(value) != parameter.is_dtype) return false;
  if (parameter.is_dtype) return std::ranges::find(parameter.dtypes, std::get<DType>(value)) != parameter.dtypes.end();
  const std::int64_t number = std::get<std::int64_t>(value);
  if (!parameter.values.empty()) return std::ranges::find(parameter.values, number) != parameter.values.end();
  return number >= parameter.minimum && number <= parameter.maximum;
}

struct OfferedAxis {
  std::string_view name;
  int asked;
  const std::vector<std::int64_t>& values;
};

}  // namespace

std::string parameter_value_problem(const ManifestParameter& parameter, const ParameterValue& value) {
  if (is_legal(parameter, value)) return {};
  return fmt::format("is {} {}; legal {}", std::holds_alternative<DType>(value) ? "the dtype" : "the integer", to_string(value),
                     legal_values(parameter));
}

Result<Specialisation> Manifest::complete(const Specialisation& given) const {
  for (const auto& item : given.items()) {
    if (std::ranges::find(parameters, item.name, &ManifestParameter::name) != parameters.end()) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("template '{}' has no parameter '{}'; it has: {}", name, item.name, joined_names(parameters)));
  }
  Specialisation complete;
  for (const auto& parameter : parameters) {
    auto value = given.get(parameter.name);
    if (!value) value = parameter.default_value;
    if (!value) {
      return fail(ErrorCode::invalid_argument, fmt::format("template '{}': parameter '{}' was not given and has no default; legal {}", name,
                                                           parameter.name, legal_values(parameter)));
    }
    if (const auto problem = parameter_value_problem(parameter, *value); !problem.empty()) {
      return fail(ErrorCode::invalid_argument, fmt::format("template '{}': parameter '{}' {}", name, parameter.name, problem));
    }
    std::visit([&](auto known) { complete.set(parameter.name, known); }, *value);
  }
  return complete;
}

const ManifestVariant* Manifest::variant(std::string_view wanted) const {
  const auto at = std::ranges::find(variants, wanted, &ManifestVariant::name);
  return at == variants.end() ? nullptr : &*at;
}

Result<> Manifest::check_tile(const Tile& tile) const {
  const ManifestVariant* offered = variant(tile.variant);
  if (offered == nullptr) {
    return fail(ErrorCode::invalid_argument, fmt::format("tile {}: template '{}' has no variant '{}'; it has: {}", tile.text(), name,
                                                         tile.variant, joined_names(variants)));
  }
  for (const OfferedAxis& axis :
       {OfferedAxis{"block_m", tile.block_m, offered->block_m}, OfferedAxis{"block_n", tile.block_n, offered->block_n},
        OfferedAxis{"stages", tile.stages, offered->stages}, OfferedAxis{"warps", tile.warps, offered->warps}}) {
    if (std::ranges::find(axis.values, axis.asked) != axis.values.end()) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("tile {}: variant '{}' of template '{}' does not offer {} = {}; legal are: {}", tile.text(), offered->name,
                            name, axis.name, axis.asked, joined_numbers(axis.values)));
  }
  return {};
}

bool Manifest::offers(const ManifestVariant& variant, const Target& target) const {
  if (target.is_host()) return variant.host;
  if (target.capability() < variant.minimum_capability) return false;
  return variant.targets.empty() || std::ranges::find(variant.targets, target.name()) != variant.targets.end();
}

std::vector<Tile> Manifest::candidates(const std::optional<Tile>& asked, const Target& target) const {
  std::vector<Tile> tiles;
  const auto add = [&](const Tile& tile) {
    const ManifestVariant* known = variant(tile.variant);
    if (known != nullptr && offers(*known, target) && std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
  };
  if (!asked) {
    for (const Tile& tile : fall_back) add(tile);
    return tiles;
  }
  add(*asked);
  // A tile that the fall-back order does not name stands before all of its variant's.
  const auto place = std::ranges::find(fall_back, *asked);
  for (auto tile = place == fall_back.end() ? fall_back.begin() : place; tile != fall_back.end(); ++tile) {
    if (tile->variant == asked->variant) add(*tile);
  }
  for (const Tile& tile : fall_back) {
    if (tile.variant != asked->variant) add(tile);
  }
  return tiles;
}

}  // namespace kernwright
