#include "warm_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

// choose_union is the library's own answer to what `auto` means for a target, and specialise to what a template takes: the program must not
// have others.
#include "ops/sparse_mla_options.hpp"
#include "prepare/candidates.hpp"
#include "support/format.hpp"
#include "support/number_list.hpp"
#include "target_choice.hpp"
#include "warm_targets.hpp"

namespace kernwright::tool {
namespace {

/// A target, or a device that is here.
struct Place {
  Target target = Target::host();
  std::optional<DeviceInfo> device;
};

Result<std::vector<Place>> parse_targets(const std::string& words) {
  std::vector<Place> places;
  for (const std::string& word : support::split(words, ',')) {
    Result<Target> target = Target::parse(word);
    if (!target) {
      return fail(ErrorCode::invalid_argument, fmt::format("--target {}: '{}' is no target; legal are {}", words, word, target_names()));
    }
    if (std::ranges::find(places, *target, &Place::target) == places.end()) places.push_back({std::move(*target), std::nullopt});
  }
  return places;
}

/// One for each kind of device: two of the same name and limits ask for the same kernels.
Result<std::vector<Place>> present_devices(const Runtime& runtime) {
  Result<std::vector<DeviceInfo>> devices = runtime.cuda_devices();
  if (!devices) {
    Error error = std::move(devices.error());
    error.message += "; --for-device asks the driver what is here: without one name the targets, for example --target sm_90a";
    return fail(std::move(error));
  }
  std::vector<Place> places;
  for (DeviceInfo& device : *devices) {
    if (device.target.is_host()) {
      Result<Target> target = Target::for_capability(device.capability_major, device.capability_minor);
      if (!target) return fail(std::move(target.error()).within(device.name));
    }
    const bool known = std::ranges::any_of(places, [&](const Place& place) {
      return place.device->name == device.name && place.target == device.target &&
             place.device->shared_memory_per_block == device.shared_memory_per_block;
    });
    if (!known) places.push_back({device.target, std::move(device)});
  }
  if (places.empty()) {
    return fail(ErrorCode::driver_unavailable,
                "--for-device: the driver works but finds no device; name the targets instead, for example --target sm_90a");
  }
  return places;
}

/// −1 stands for auto.
Result<std::vector<int>> parse_unions(const std::string& words) {
  std::vector<int> unions;
  for (const std::string& word : support::split(words, ',')) {
    int value = -2;
    if (word == "auto") value = -1;
    for (const int group : {0, 2, 4, 8, 16}) {
      if (word == std::to_string(group)) value = group;
    }
    if (value == -2) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--union {}: '{}' is not legal; legal are auto, 0 (off), 2, 4, 8, 16, comma-separated", words, word));
    }
    if (std::ranges::find(unions, value) == unions.end()) unions.push_back(value);
  }
  if (unions.empty()) return fail(ErrorCode::invalid_argument, "--union is empty; legal are auto, 0 (off), 2, 4, 8, 16, comma-separated");
  return unions;
}

/// The group sizes that an op left to `auto` may choose: on the device, or on any device of the target that the tuning tables know by name.
Result<std::vector<int>> automatic_groups(const Runtime& runtime, const SparseMlaPrefillOptions& op, const Place& place) {
  DeviceInfo device = place.device.value_or(DeviceInfo{});
  device.target = place.target;
  std::vector<std::string> names{device.name};
  if (!place.device) {
    auto tables = runtime.state().tables();
    if (!tables) return fail(std::move(tables.error()));
    std::ranges::copy((*tables)->device_names(place.target), std::back_inserter(names));
  }
  std::vector<int> groups;
  for (std::string& name : names) {
    device.name = std::move(name);
    Result<UnionChoice> choice = choose_union(runtime.state(), op, device);
    if (!choice) return fail(std::move(choice.error()));
    if (std::ranges::find(groups, choice->group_size) == groups.end()) groups.push_back(choice->group_size);
  }
  return groups;
}

/// Every kernel that an op with these options may prepare. What is asked for twice is built once.
Result<std::vector<WarmRequest>> sparse_mla_requests(const Runtime& runtime, const WarmWords& words, const std::vector<Place>& places) {
  const Result<std::vector<int>> heads = support::parse_numbers("--heads", words.heads, kSmallestHeads, kLargestHeads);
  if (!heads) return fail(Error(heads.error()));
  const Result<std::vector<int>> unions = parse_unions(words.unions);
  if (!unions) return fail(Error(unions.error()));
  std::vector<WarmRequest> requests;
  const auto add = [&](const char* name, Specialisation specialisation, const Place& place) {
    const auto device = place.device ? std::optional(place.device->id) : std::nullopt;
    requests.push_back({name, std::move(specialisation), place.target, std::nullopt, !words.no_fallbacks, device});
  };
  for (const Place& place : places) {
    for (const int head_count : *heads) {
      SparseMlaPrefillOptions op;
      op.heads = head_count;
      for (const int word : *unions) {
        Result<std::vector<int>> groups = word == -1 ? automatic_groups(runtime, op, place) : std::vector<int>{word};
        if (!groups) return fail(std::move(groups.error()));
        for (const int group : *groups) {
          if (group > 0) {
            add(kUnionBuildTemplate, Specialisation().set("group_size", group), place);
            add(kWideUnionBuildTemplate, Specialisation().set("group_size", group), place);
            add(kPrefillTemplate, prefill_specialisation(op, group), place);
          }
          // Where no tile of the union fits, the op goes on per token.
          if (group == 0 || !words.no_fallbacks) add(kPrefillTemplate, prefill_specialisation(op, 1), place);
        }
      }
    }
  }
  return requests;
}

Result<std::vector<WarmRequest>> one_kernel(const Runtime& runtime, const WarmWords& words, const std::vector<Place>& places) {
  const auto off = [](std::string_view option, Error error) {
    error.message = fmt::format("{}: {}", option, error.message);
    return fail(std::move(error));
  };
  Result<Specialisation> given = Specialisation::parse(words.specialisation);
  if (!given) return off("--specialisation", std::move(given.error()));
  std::optional<Tile> tile;
  if (!words.tile.empty()) {
    Result<Tile> parsed = Tile::parse(words.tile);
    if (!parsed) return off("--tile", std::move(parsed.error()));
    tile = std::move(*parsed);
  }
  const Result<Specialised> specialised = specialise(runtime.state(), words.template_name, *given);
  if (!specialised) return off("--template " + words.template_name, Error(specialised.error()));
  if (tile) {
    Result<> checked = specialised->definition->manifest.check_tile(*tile);
    if (!checked) return off("--tile", std::move(checked.error()));
  }
  std::vector<WarmRequest> requests;
  for (const Place& place : places) {
    const auto device = place.device ? std::optional(place.device->id) : std::nullopt;
    requests.push_back({words.template_name, specialised->specialisation, place.target, tile, !words.no_fallbacks, device});
  }
  return requests;
}

Result<std::vector<WarmRequest>> listed(const Runtime& runtime, const WarmWords& words, const std::vector<Place>& places) {
  std::vector<Target> targets;
  for (const Place& place : places) {
    if (std::ranges::find(targets, place.target) == targets.end()) targets.push_back(place.target);
  }
  Result<std::vector<WarmRequest>> read = runtime.read_launch_list(words.list, targets);
  if (!read) return read;
  std::vector<WarmRequest> requests;
  for (WarmRequest& request : *read) {
    request.fall_backs = request.fall_backs && !words.no_fallbacks;
    if (!words.for_device) {
      requests.push_back(std::move(request));
      continue;
    }
    for (const Place& place : places) {
      if (place.target != request.target) continue;
      request.device = place.device->id;
      requests.push_back(request);
    }
  }
  return requests;
}

Result<std::vector<Place>> places_of(const Runtime& runtime, const WarmWords& words) {
  if (words.for_device) return present_devices(runtime);
  // A list brings its targets along: KERNWRIGHT_TARGET must not change what it says.
  Result<std::vector<Place>> places = parse_targets(words.list.empty() ? target_word(words.targets, "") : words.targets);
  if (places && places->empty() && words.list.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--target is needed, or --for-device: one or more of {}, comma-separated", target_names()));
  }
  return places;
}

}  // namespace

Result<WarmSelection> select_requests(const Runtime& runtime, const WarmWords& words) {
  Result<std::vector<Place>> places = places_of(runtime, words);
  if (!places) return fail(std::move(places.error()));
  WarmSelection selection;
  Result<std::vector<WarmRequest>> requests;
  if (!words.list.empty()) {
    requests = listed(runtime, words, *places);
    selection.description = "launch list " + words.list;
  } else if (!words.template_name.empty()) {
    requests = one_kernel(runtime, words, *places);
    selection.description =
        words.specialisation.empty() ? words.template_name : fmt::format("{} ({})", words.template_name, words.specialisation);
  } else {
    requests = sparse_mla_requests(runtime, words, *places);
    const bool is_default = words.heads == kDefaultHeads && words.unions == kDefaultUnions;
    selection.description =
        fmt::format("{}sparse MLA prefill with heads {} and union {}", is_default ? "the default list: " : "", words.heads, words.unions);
  }
  if (!requests) return fail(std::move(requests.error()));
  for (const WarmRequest& request : *requests) {
    // A template of the folder may take less than the built-in one whose name it has.
    Result<Specialised> specialised = specialise(runtime.state(), request.template_name, request.specialisation);
    if (specialised) continue;
    const bool own_folder = !words.template_folder.empty();
    return fail(own_folder ? std::move(specialised.error()).within("reading --templates " + words.template_folder)
                           : std::move(specialised.error()));
  }
  selection.requests = std::move(*requests);
  return selection;
}

}  // namespace kernwright::tool
