// A manifest's TOML form.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "manifest/manifest.hpp"
#include "manifest/names.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kManifestFormat = 1;
constexpr std::int64_t kLargestAxisValue = 65536;
constexpr std::int64_t kMostWarps = 32;  // CUDA's limit of 1,024 threads a block
constexpr int kSmallestCapability = 80;

using NameProblem = std::string (*)(std::string_view);

Result<std::string> checked_name(TomlReader& reader, std::string_view key, NameProblem problem_of) {
  auto name = reader.string(key);
  if (!name) return name;
  if (const auto problem = problem_of(*name); !problem.empty()) return fail(reader.error(key, problem));
  return name;
}

Result<std::string> virtual_file_name(TomlReader& reader, std::string_view key) {
  auto name = checked_name(reader, key, virtual_name_problem);
  if (name && name->starts_with("kernwright/")) {
    return fail(reader.error(key, fmt::format("is '{}'; names below kernwright/ belong to generated headers", *name)));
  }
  return name;
}

template <class T>
bool has_duplicate(std::vector<T> values) {
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) != values.end();
}

Result<std::vector<std::int64_t>> read_parameter_integers(TomlReader& reader, std::string_view key) {
  auto numbers = reader.integers(key);
  if (!numbers) return numbers;
  for (const std::int64_t number : *numbers) {
    if (number < std::numeric_limits<std::int32_t>::min() || number > std::numeric_limits<std::int32_t>::max()) {
      return fail(reader.error(key, fmt::format("holds {}; a parameter becomes an int, so 32 bits are legal", number)));
    }
  }
  return numbers;
}

Result<> read_integer_type(TomlReader& reader, ManifestParameter& parameter) {
  auto values = read_parameter_integers(reader, "values");
  if (!values) return fail(std::move(values.error()));
  auto range = read_parameter_integers(reader, "range");
  if (!range) return fail(std::move(range.error()));
  if (values->empty() == range->empty()) {
    return fail(reader.error(
        "",
        fmt::format("parameter '{}' of type int needs either 'range', such as [1, 128], or 'values', such as [2, 4, 8]", parameter.name)));
  }
  if (has_duplicate(*values)) return fail(reader.error("values", "names a value twice"));
  if (!range->empty()) {
    if (range->size() != 2 || range->front() > range->back()) {
      return fail(reader.error("range", "must be two integers, the smaller first, such as [1, 128]"));
    }
    parameter.minimum = range->front();
    parameter.maximum = range->back();
  }
  parameter.values = std::move(*values);
  auto chosen = reader.optional_integer("default");
  if (!chosen) return fail(std::move(chosen.error()));
  if (*chosen) parameter.default_value = **chosen;
  return {};
}

Result<DType> known_dtype(const TomlReader& reader, std::string_view key, std::string_view name) {
  if (const auto dtype = dtype_from_string(name)) return *dtype;
  return fail(reader.error(key, fmt::format("names '{}', which is no dtype; legal are bf16, f16, f32, i32, i64, u8", name.substr(0, 40))));
}

Result<> read_dtype_type(TomlReader& reader, ManifestParameter& parameter) {
  auto names = reader.strings("values");
  if (!names) return fail(std::move(names.error()));
  if (names->empty()) return fail(reader.error("values", "is missing or empty; it must name at least one dtype, such as [\"bf16\"]"));
  for (const std::string& name : *names) {
    auto dtype = known_dtype(reader, "values", name);
    if (!dtype) return fail(std::move(dtype.error()));
    parameter.dtypes.push_back(*dtype);
  }
  if (has_duplicate(parameter.dtypes)) return fail(reader.error("values", "names a dtype twice"));
  auto chosen = reader.optional_string("default");
  if (!chosen) return fail(std::move(chosen.error()));
  if (!*chosen) return {};
  auto dtype = known_dtype(reader, "default", **chosen);
  if (!dtype) return fail(std::move(dtype.error()));
  parameter.default_value = *dtype;
  return {};
}

Result<ManifestParameter> read_parameter(TomlReader& reader) {
  ManifestParameter parameter;
  auto name = checked_name(reader, "name", identifier_problem);
  if (!name) return fail(std::move(name.error()));
  parameter.name = std::move(*name);
  auto type = reader.string("type");
  if (!type) return fail(std::move(type.error()));
  if (*type != "int" && *type != "dtype")
    return fail(reader.error("type", fmt::format("is '{}'; legal are int and dtype", type->substr(0, 40))));
  parameter.is_dtype = *type == "dtype";
  if (auto read = parameter.is_dtype ? read_dtype_type(reader, parameter) : read_integer_type(reader, parameter); !read) {
    return fail(std::move(read.error()));
  }
  if (parameter.default_value) {
    if (const auto problem = parameter_value_problem(parameter, *parameter.default_value); !problem.empty()) {
      return fail(reader.error("default", problem));
    }
  }
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return parameter;
}

Result<std::vector<std::int64_t>> read_axis(TomlReader& reader, std::string_view key, std::int64_t largest) {
  auto values = reader.integers(key);
  if (!values) return values;
  if (values->empty()) return fail(reader.error(key, "is missing or empty; it must list the values offered, such as [16, 32]"));
  for (const std::int64_t value : *values) {
    if (value < 1 || value > largest) return fail(reader.error(key, fmt::format("holds {}; legal are 1 to {}", value, largest)));
  }
  if (has_duplicate(*values)) return fail(reader.error(key, "names a value twice"));
  return values;
}

/// "8.0" as 80, "12.1" as 121; 0 for anything else.
int capability_from(std::string_view text) {
  const std::size_t dot = text.find('.');
  if ((dot != 1 && dot != 2) || text.size() != dot + 2 || text.front() == '0') return 0;
  int capability = 0;
  for (const char c : text) {
    if (c == '.') continue;
    if (c < '0' || c > '9') return 0;
    capability = capability * 10 + (c - '0');
  }
  return capability;
}

Result<int> read_minimum_capability(TomlReader& reader) {
  auto text = reader.optional_string("minimum_capability");
  if (!text) return fail(std::move(text.error()));
  if (!*text) return kSmallestCapability;
  const int capability = capability_from(**text);
  if (capability >= kSmallestCapability) return capability;
  return fail(reader.error(
      "minimum_capability",
      fmt::format("is '{}'; it must be a compute capability of 8.0 or later, such as \"8.0\" or \"12.1\"", (*text)->substr(0, 40))));
}

Result<std::vector<std::string>> read_targets(TomlReader& reader, int minimum_capability) {
  auto names = reader.strings("targets");
  if (!names) return names;
  for (const std::string& name : *names) {
    const auto target = Target::parse(name);
    if (!target) return fail(reader.error("targets", "names one that is not known: " + target.error().message));
    if (target->is_host()) return fail(reader.error("targets", "names host; 'host = true' or 'host = false' says that"));
    if (target->capability() < minimum_capability) {
      return fail(reader.error("targets", fmt::format("names {}, which is below this variant's minimum_capability", name)));
    }
  }
  if (has_duplicate(*names)) return fail(reader.error("targets", "names a target twice"));
  return names;
}

Result<> read_axes(TomlReader& reader, ManifestVariant& variant) {
  struct Axis {
    std::string_view key;
    std::vector<std::int64_t>& values;
    std::int64_t largest;
  };
  for (const Axis& axis : {Axis{"block_m", variant.block_m, kLargestAxisValue}, Axis{"block_n", variant.block_n, kLargestAxisValue},
                           Axis{"stages", variant.stages, kLargestAxisValue}, Axis{"warps", variant.warps, kMostWarps}}) {
    auto values = read_axis(reader, axis.key, axis.largest);
    if (!values) return fail(std::move(values.error()));
    axis.values = std::move(*values);
  }
  return {};
}

Result<ManifestVariant> read_variant(TomlReader& reader) {
  ManifestVariant variant;
  auto name = checked_name(reader, "name", variant_problem);
  if (!name) return fail(std::move(name.error()));
  variant.name = std::move(*name);
  auto source = virtual_file_name(reader, "source");
  if (!source) return fail(std::move(source.error()));
  variant.source = std::move(*source);
  auto capability = read_minimum_capability(reader);
  if (!capability) return fail(std::move(capability.error()));
  variant.minimum_capability = *capability;
  auto targets = read_targets(reader, *capability);
  if (!targets) return fail(std::move(targets.error()));
  variant.targets = std::move(*targets);
  auto host = reader.optional_boolean("host");
  if (!host) return fail(std::move(host.error()));
  variant.host = host->value_or(true);
  if (auto axes = read_axes(reader, variant); !axes) return fail(std::move(axes.error()));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return variant;
}

/// Reads every [[key]] table; a name that an earlier one has is an error.
template <class Item>
Result<std::vector<Item>> read_named(TomlReader& reader, std::string_view key, Result<Item> (*read)(TomlReader&)) {
  std::vector<Item> items;
  auto tables = reader.tables(key);
  if (!tables) return fail(std::move(tables.error()));
  for (TomlReader& table : *tables) {
    auto item = read(table);
    if (!item) return fail(std::move(item.error()));
    if (std::ranges::find(items, item->name, &Item::name) != items.end()) {
      return fail(table.error("name", fmt::format("is '{}', which an earlier [[{}]] has already", item->name, key)));
    }
    items.push_back(std::move(*item));
  }
  return items;
}

Result<std::vector<Tile>> read_fall_back(TomlReader& reader, const Manifest& manifest) {
  std::vector<Tile> tiles;
  auto texts = reader.strings("fall_back");
  if (!texts) return fail(std::move(texts.error()));
  if (texts->empty()) {
    return fail(reader.error("fall_back", "is missing or empty; it must list at least one tile, such as [\"portable:m16n16s1w4\"]"));
  }
  for (const std::string& text : *texts) {
    auto tile = Tile::parse(text);
    if (!tile) return fail(reader.error("fall_back", "is wrong: " + tile.error().message));
    if (auto offered = manifest.check_tile(*tile); !offered) return fail(reader.error("fall_back", "is wrong: " + offered.error().message));
    tiles.push_back(std::move(*tile));
  }
  if (has_duplicate(tiles)) return fail(reader.error("fall_back", "names a tile twice"));
  return tiles;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view toml, std::string_view file_name) {
  const auto table = parse_toml(toml, file_name);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, std::string(file_name), "");
  if (auto format = reader.require_format(kManifestFormat); !format) return fail(std::move(format.error()));
  Manifest manifest;
  auto name = checked_name(reader, "name", virtual_name_problem);
  if (!name) return fail(std::move(name.error()));
  manifest.name = std::move(*name);
  auto entry = checked_name(reader, "entry", identifier_problem);
  if (!entry) return fail(std::move(entry.error()));
  manifest.entry = std::move(*entry);
  auto plan = virtual_file_name(reader, "plan");
  if (!plan) return fail(std::move(plan.error()));
  manifest.plan = std::move(*plan);
  auto parameters = read_named<ManifestParameter>(reader, "parameter", read_parameter);
  if (!parameters) return fail(std::move(parameters.error()));
  manifest.parameters = std::move(*parameters);
  auto variants = read_named<ManifestVariant>(reader, "variant", read_variant);
  if (!variants) return fail(std::move(variants.error()));
  if (variants->empty()) return fail(reader.error("variant", "is missing; a template has at least one [[variant]]"));
  manifest.variants = std::move(*variants);
  auto fall_back = read_fall_back(reader, manifest);
  if (!fall_back) return fail(std::move(fall_back.error()));
  manifest.fall_back = std::move(*fall_back);
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return manifest;
}

}  // namespace kernwright
