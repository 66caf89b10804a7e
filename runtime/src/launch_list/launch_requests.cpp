// From a launch list to the requests that it stands for.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "launch_list/launch_list.hpp"

namespace kernwright {
namespace {

/// Those that a launch is for once the caller's targets are given.
std::vector<Target> targets_of(const Launch& launch, const LaunchList& list, std::span<const Target> given) {
  if (launch.targets.empty()) return given.empty() ? list.targets : std::vector<Target>(given.begin(), given.end());
  if (given.empty()) return launch.targets;
  std::vector<Target> both;
  std::ranges::copy_if(launch.targets, std::back_inserter(both),
                       [&](const Target& target) { return std::ranges::find(given, target) != given.end(); });
  return both;
}

template <class Targets>
std::string joined(const Targets& targets) {
  std::string names;
  for (const Target& target : targets) names += fmt::format("{}{}", names.empty() ? "" : ", ", target.name());
  return names;
}

}  // namespace

Result<std::vector<WarmRequest>> launch_requests(const LaunchList& list, std::span<const Target> given, std::string_view file_name) {
  std::vector<WarmRequest> requests;
  std::set<Target> passed_over;
  for (const Launch& launch : list.launches) {
    const std::vector<Target> targets = targets_of(launch, list, given);
    if (targets.empty() && launch.targets.empty()) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("{}:{}: the launch of {} names no target, nor does the list; give targets = [\"sm_90a\"] at its top, or a target "
                      "beside the list",
                      file_name, launch.line, launch.template_name));
    }
    if (targets.empty()) passed_over.insert(launch.targets.begin(), launch.targets.end());
    for (const Target& target : targets) {
      requests.push_back({launch.template_name, launch.specialisation, target, launch.tile, launch.fall_backs, std::nullopt});
    }
  }
  if (requests.empty() && !list.launches.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: no launch is for {}; its launches are for {}", file_name, joined(given), joined(passed_over)));
  }
  return requests;
}

}  // namespace kernwright
