#include "tuning/row_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

const ManifestParameter* find(const Manifest& manifest, std::string_view name) {
  const auto at = std::ranges::find(manifest.parameters, name, &ManifestParameter::name);
  return at == manifest.parameters.end() ? nullptr : &*at;
}

std::string parameter_list(const Manifest& manifest) {
  std::vector<std::string_view> names;
  for (const ManifestParameter& parameter : manifest.parameters) names.push_back(parameter.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string when_problem(const std::vector<Specialisation::Item>& when, const Manifest& manifest) {
  for (const auto& [name, value] : when) {
    const ManifestParameter* const parameter = find(manifest, name);
    if (parameter == nullptr) {
      return fmt::format("when = {} names the parameter '{}', which {} does not have; it has: {}", when_text(when), name, manifest.name,
                         parameter_list(manifest));
    }
    if (const std::string problem = parameter_value_problem(*parameter, value); !problem.empty()) {
      return fmt::format("when = {} names a value that {} is never made for: '{}' {}", when_text(when), manifest.name, name, problem);
    }
  }
  return {};
}

}  // namespace

std::string when_text(const std::vector<Specialisation::Item>& when) {
  std::vector<std::string> items;
  for (const auto& [name, value] : when) {
    items.push_back(fmt::format("{} = {}", name, std::holds_alternative<DType>(value) ? toml_quote(to_string(value)) : to_string(value)));
  }
  return items.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(items, ", "));
}

std::string unmatched_problem(const TuningRow& row, const Manifest& manifest) {
  return when_problem(row.when, manifest);
}

std::string unmatched_problem(const PreferenceRow& row, const Manifest& manifest) {
  if (std::string problem = when_problem(row.when, manifest); !problem.empty()) return problem;
  if (find(manifest, row.parameter) == nullptr) {
    return fmt::format("when = {} prefers a value of the parameter '{}', which {} does not have; it has: {}", when_text(row.when),
                       row.parameter, manifest.name, parameter_list(manifest));
  }
  if (std::ranges::find(row.when, row.parameter, &Specialisation::Item::name) != row.when.end()) {
    return fmt::format("when = {} names '{}' itself, which is not known yet where its value is chosen", when_text(row.when), row.parameter);
  }
  return {};
}

std::string row_problem(const TuningRow& row, const Manifest& manifest) {
  if (std::string problem = unmatched_problem(row, manifest); !problem.empty()) return problem;
  if (const auto checked = manifest.check_tile(row.tile); !checked) return checked.error().message;
  if (row.target == kAnyTarget) return {};
  const auto target = Target::parse(row.target);
  const ManifestVariant* const variant = manifest.variant(row.tile.variant);
  if (target && variant != nullptr && !manifest.offers(*variant, *target)) {
    return fmt::format("tile {}: variant '{}' of {} is not offered on {}", row.tile.text(), variant->name, manifest.name, row.target);
  }
  return {};
}

std::string row_problem(const PreferenceRow& row, const Manifest& manifest) {
  if (std::string problem = unmatched_problem(row, manifest); !problem.empty()) return problem;
  const std::string problem = parameter_value_problem(*find(manifest, row.parameter), row.value);
  return problem.empty() ? problem : fmt::format("the preferred value of '{}' {}", row.parameter, problem);
}

}  // namespace kernwright
