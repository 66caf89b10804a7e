// A launch list's canonical text.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "launch_list/launch_list.hpp"
#include "manifest/toml_bounds.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

using Parameters = std::map<std::string, ParameterValue>;
using LaunchKey = std::tuple<std::string, Parameters, std::optional<Tile>, bool>;  // template, parameters, tile, fall_backs
using TargetSet = std::set<Target>;

std::map<LaunchKey, TargetSet> merged(const LaunchList& list) {
  std::map<LaunchKey, TargetSet> launches;
  for (const Launch& launch : list.launches) {
    Parameters parameters;
    for (const auto& [name, value] : launch.specialisation.items()) parameters.emplace(name, value);
    TargetSet& targets = launches[{launch.template_name, std::move(parameters), launch.tile, launch.fall_backs}];
    const auto& named = launch.targets.empty() ? list.targets : launch.targets;
    targets.insert(named.begin(), named.end());
  }
  return launches;
}

/// The targets that every launch is for, if that is the same set for all.
TargetSet shared_targets(const std::map<LaunchKey, TargetSet>& launches, const LaunchList& list) {
  if (launches.empty()) return {list.targets.begin(), list.targets.end()};
  for (const auto& [key, targets] : launches) {
    if (targets != launches.begin()->second) return {};
  }
  return launches.begin()->second;
}

std::string targets_line(const TargetSet& targets) {
  std::string names;
  for (const Target& target : targets) names += fmt::format("{}{}", names.empty() ? "" : ", ", toml_quote(target.name()));
  return fmt::format("targets = [{}]\n", names);
}

std::string value_text(const ParameterValue& value) {
  return std::holds_alternative<DType>(value) ? toml_quote(to_string(value)) : to_string(value);
}

std::string launch_text(const LaunchKey& key, const TargetSet& own_targets) {
  const auto& [name, parameters, tile, fall_backs] = key;
  std::string text = fmt::format("\n[[launch]]\ntemplate = {}\n", toml_quote(name));
  if (!own_targets.empty()) text += targets_line(own_targets);
  if (tile) text += fmt::format("tile = {}\n", toml_quote(tile->text()));
  if (!fall_backs) text += "fall_backs = false\n";
  std::string values;
  for (const auto& [parameter, value] : parameters) {
    values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", parameter, value_text(value));
  }
  if (!values.empty()) text += fmt::format("specialisation = {{ {} }}\n", values);
  return text;
}

}  // namespace

Result<std::string> write_launch_list(const LaunchList& list) {
  const auto launches = merged(list);
  const TargetSet shared = shared_targets(launches, list);
  std::string text = "format = 1\n";
  if (!shared.empty()) text += targets_line(shared);
  std::size_t count = 0;
  for (const auto& [key, targets] : launches) {
    text += launch_text(key, shared.empty() ? targets : TargetSet{});
    count += std::max<std::size_t>(1, targets.size());
  }
  if (text.size() > kMostTomlBytes || count > kMostLaunches) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the launch list comes to {} launches in {} bytes; one list may hold at most {} in {} bytes", count,
                            text.size(), kMostLaunches, kMostTomlBytes));
  }
  return text;
}

}  // namespace kernwright
