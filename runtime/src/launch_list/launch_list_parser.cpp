// A launch list's TOML form.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "launch_list/launch_list.hpp"
#include "manifest/names.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kLaunchListFormat = 1;
constexpr std::string_view kLegalValues =
    R"(legal are an integer, one of the dtypes "bf16", "f16", "f32", "i32", "i64", "u8", a list of these, or { from = A, to = B, step = C })";

/// A parameter and the values that are asked for.
struct Choices {
  std::string name;
  std::vector<ParameterValue> values;
};

/// Factors of at most kMostLaunches each; stays at the largest number instead of wrapping round.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b ? std::numeric_limits<std::uint64_t>::max() : a * b;
}

std::string too_many(std::uint64_t count, std::string_view of) {
  const bool saturated = count == std::numeric_limits<std::uint64_t>::max();
  return fmt::format("comes to {}{} {}; a list may come to at most {}", saturated ? "more than " : "", count, of, kMostLaunches);
}

Result<std::vector<Target>> read_targets(TomlReader& reader) {
  auto names = reader.strings("targets");
  if (!names) return fail(std::move(names.error()));
  std::vector<Target> targets;
  for (const std::string& name : *names) {
    auto target = Target::parse(name);
    if (!target) return fail(reader.error("targets", "is wrong: " + target.error().message));
    if (std::ranges::find(targets, *target) == targets.end()) targets.push_back(std::move(*target));
  }
  return targets;
}

/// Nothing: the value is neither an integer nor a dtype.
std::optional<ParameterValue> single_value(const TomlValue& value) {
  if (const auto* number = value.integer()) return *number;
  if (const auto* text = value.string()) {
    if (const auto dtype = dtype_from_string(*text)) return *dtype;
  }
  return std::nullopt;
}

/// { from = 1, to = 128, step = 1 }, both ends included. `reader` reads the inner table.
Result<std::vector<ParameterValue>> read_range(TomlReader& reader) {
  auto from = reader.integer("from");
  if (!from) return fail(std::move(from.error()));
  auto to = reader.integer("to");
  if (!to) return fail(std::move(to.error()));
  auto given_step = reader.optional_integer("step");
  if (!given_step) return fail(std::move(given_step.error()));
  const std::int64_t step = given_step->value_or(1);
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  if (*to < *from) return fail(reader.error("to", fmt::format("is {}; legal is {} (from) or more", *to, *from)));
  if (step < 1) return fail(reader.error("step", fmt::format("is {}; legal is 1 or more", step)));
  // Unsigned, since the distance of two 64-bit integers need not be one.
  const std::uint64_t steps = (static_cast<std::uint64_t>(*to) - static_cast<std::uint64_t>(*from)) / static_cast<std::uint64_t>(step);
  if (steps >= kMostLaunches) {
    return fail(reader.error("to", too_many(steps == std::numeric_limits<std::uint64_t>::max() ? steps : steps + 1, "values")));
  }
  std::vector<ParameterValue> values;
  for (std::uint64_t i = 0; i <= steps; ++i) {
    values.emplace_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(*from) + i * static_cast<std::uint64_t>(step)));
  }
  return values;
}

Result<Choices> read_choices(TomlReader& specialisation, const std::string& name, const TomlValue& value, const std::string& file_name,
                             const std::string& where) {
  if (const auto problem = identifier_problem(name); !problem.empty()) {
    return fail(specialisation.error(name, "as a parameter's name " + problem));
  }
  Choices choices{name, {}};
  if (const auto* table = value.table()) {
    TomlReader range(*table, file_name, fmt::format("{}: {}", where, name), value.line);
    auto values = read_range(range);
    if (!values) return fail(std::move(values.error()));
    choices.values = std::move(*values);
    return choices;
  }
  const auto* list = value.array();
  if (list != nullptr && list->empty()) return fail(specialisation.error(name, fmt::format("is an empty list; {}", kLegalValues)));
  if (list != nullptr && list->size() > kMostLaunches) return fail(specialisation.error(name, too_many(list->size(), "values")));
  for (const TomlValue& item : list != nullptr ? std::span<const TomlValue>(*list) : std::span(&value, 1)) {
    const auto known = single_value(item);
    if (!known) return fail(specialisation.error(name, fmt::format("is {}; {}", describe(item), kLegalValues)));
    choices.values.push_back(*known);
  }
  return choices;
}

Result<std::vector<Choices>> read_specialisation(TomlReader& launch, const std::string& file_name, const std::string& where) {
  std::vector<Choices> all;
  auto specialisation = launch.optional_table("specialisation");
  if (!specialisation) return fail(std::move(specialisation.error()));
  if (!*specialisation) return all;
  for (const auto& [name, value] : (*specialisation)->raw()) {
    auto choices = read_choices(**specialisation, name, value, file_name, where + ": specialisation");
    if (!choices) return fail(std::move(choices.error()));
    all.push_back(std::move(*choices));
  }
  return all;
}

/// One launch for each combination, the last parameter's values running fastest.
void multiply_out(const Launch& common, const std::vector<Choices>& parameters, std::vector<Launch>& launches) {
  std::vector<std::size_t> at(parameters.size(), 0);
  for (;;) {
    Launch& launch = launches.emplace_back(common);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::visit([&](auto value) { launch.specialisation.set(parameters[i].name, value); }, parameters[i].values[at[i]]);
    }
    std::size_t i = parameters.size();
    while (i > 0 && ++at[i - 1] == parameters[i - 1].values.size()) at[--i] = 0;
    if (i == 0) return;
  }
}

/// Reads one [[launch]] and appends what it comes to. `total` counts launches times targets over the whole list.
Result<> read_launch(TomlReader& reader, const std::string& file_name, std::size_t number, LaunchList& list, std::uint64_t& total) {
  Launch launch;
  launch.line = reader.line();
  auto name = reader.string("template");
  if (!name) return fail(std::move(name.error()));
  if (const auto problem = virtual_name_problem(*name); !problem.empty()) return fail(reader.error("template", problem));
  launch.template_name = std::move(*name);
  auto targets = read_targets(reader);
  if (!targets) return fail(std::move(targets.error()));
  launch.targets = std::move(*targets);
  auto tile_text = reader.optional_string("tile");
  if (!tile_text) return fail(std::move(tile_text.error()));
  if (*tile_text) {
    auto tile = Tile::parse(**tile_text);
    if (!tile) return fail(reader.error("tile", "is wrong: " + tile.error().message));
    launch.tile = std::move(*tile);
  }
  auto fall_backs = reader.optional_boolean("fall_backs");
  if (!fall_backs) return fail(std::move(fall_backs.error()));
  launch.fall_backs = fall_backs->value_or(true);
  auto parameters = read_specialisation(reader, file_name, fmt::format("[[launch]] {}", number));
  if (!parameters) return fail(std::move(parameters.error()));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));

  std::uint64_t count = std::max<std::uint64_t>(1, launch.targets.empty() ? list.targets.size() : launch.targets.size());
  for (const Choices& choices : *parameters) count = product(count, choices.values.size());
  if (count > kMostLaunches) return fail(reader.error("specialisation", too_many(count, "launches")));
  total += count;
  if (total > kMostLaunches) return fail(reader.error("", "with those before it the list " + too_many(total, "launches")));
  multiply_out(launch, *parameters, list.launches);
  return {};
}

}  // namespace

Result<LaunchList> parse_launch_list(std::string_view toml, std::string_view file_name) {
  const std::string file(file_name);
  const auto table = parse_toml(toml, file_name);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, file, "");
  if (auto format = reader.require_format(kLaunchListFormat); !format) return fail(std::move(format.error()));
  LaunchList list;
  auto targets = read_targets(reader);
  if (!targets) return fail(std::move(targets.error()));
  list.targets = std::move(*targets);
  auto launches = reader.tables("launch");
  if (!launches) return fail(std::move(launches.error()));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < launches->size(); ++i) {
    if (auto read = read_launch((*launches)[i], file, i + 1, list, total); !read) return fail(std::move(read.error()));
  }
  return list;
}

}  // namespace kernwright
