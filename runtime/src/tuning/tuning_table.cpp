#include "tuning/tuning_table.hpp"

#include <fmt/format.h>

#include "kernwright/target.hpp"
#include "manifest/names.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kTuningFormat = 1;
Result<std::vector<Specialisation::Item>> read_when(TomlReader& row) {
  std::vector<Specialisation::Item> items;
  auto when = row.optional_table("when");
  if (!when) return fail(std::move(when.error()));
  if (!*when) return items;
  for (const auto& [name, value] : (*when)->raw()) {
    if (const auto problem = identifier_problem(name); !problem.empty())
      return fail((*when)->error(name, "as a parameter's name " + problem));
    const auto dtype = value.string() == nullptr ? std::nullopt : dtype_from_string(*value.string());
    if (value.integer() != nullptr) {
      items.push_back({name, *value.integer()});
    } else if (dtype) {
      items.push_back({name, *dtype});
    } else {
      return fail((*when)->error(name, R"(must be an integer or one of the dtypes "bf16", "f16", "f32", "i32", "i64", "u8")"));
    }
  }
  return items;
}

/// The fields that both kinds of rows have.
template <class Row>
Result<Row> read_common(TomlReader& reader) {
  Row row;
  auto name = reader.string("template");
  if (!name) return fail(std::move(name.error()));
  if (const auto problem = virtual_name_problem(*name); !problem.empty()) return fail(reader.error("template", problem));
  row.template_name = std::move(*name);
  auto when = read_when(reader);
  if (!when) return fail(std::move(when.error()));
  row.when = std::move(*when);
  auto target = reader.string("target");
  if (!target) return fail(std::move(target.error()));
  if (*target != kAnyTarget) {
    if (auto known = Target::parse(*target); !known)
      return fail(reader.error("target", "must be \"default\" or a target: " + known.error().message));
  }
  row.target = std::move(*target);
  auto device = reader.optional_string("device");
  if (!device) return fail(std::move(device.error()));
  row.device = device->value_or("");
  auto digest = reader.optional_string("digest");
  if (!digest) return fail(std::move(digest.error()));
  row.digest = digest->value_or("");
  auto measured = reader.optional_string("measured");
  if (!measured) return fail(std::move(measured.error()));
  row.measured = measured->value_or("");
  // For people; looked at so that a wrong one is found.
  for (const std::string_view key : {"driver", "compiler", "date", "clocks"}) {
    if (auto text = reader.optional_string(key); !text) return fail(std::move(text.error()));
  }
  for (const std::string_view key : {"gain", "noise"}) {
    if (auto number = reader.optional_number(key); !number) return fail(std::move(number.error()));
  }
  if (auto shapes = reader.strings("shapes"); !shapes) return fail(std::move(shapes.error()));
  return row;
}

Result<TuningRow> read_tile(TomlReader& reader) {
  auto row = read_common<TuningRow>(reader);
  if (!row) return row;
  auto text = reader.string("tile");
  if (!text) return fail(std::move(text.error()));
  auto tile = Tile::parse(*text);
  if (!tile) return fail(reader.error("tile", "is wrong: " + tile.error().message));
  row->tile = std::move(*tile);
  if (auto compared = reader.optional_string("default"); !compared) return fail(std::move(compared.error()));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return row;
}

Result<PreferenceRow> read_preference(TomlReader& reader) {
  auto row = read_common<PreferenceRow>(reader);
  if (!row) return row;
  auto parameter = reader.string("parameter");
  if (!parameter) return fail(std::move(parameter.error()));
  if (const auto problem = identifier_problem(*parameter); !problem.empty()) return fail(reader.error("parameter", problem));
  row->parameter = std::move(*parameter);
  auto value = reader.integer("value");
  if (!value) return fail(std::move(value.error()));
  row->value = *value;
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return row;
}

template <class Row>
Result<std::vector<Row>> read_rows(TomlReader& reader, std::string_view key, Result<Row> (*read)(TomlReader&)) {
  std::vector<Row> rows;
  auto tables = reader.tables(key);
  if (!tables) return fail(std::move(tables.error()));
  for (TomlReader& table : *tables) {
    auto row = read(table);
    if (!row) return fail(std::move(row.error()));
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace

Result<TuningTable> parse_tuning_table(std::string_view toml, std::string name, TableOwner owner) {
  const auto table = parse_toml(toml, name);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, name, "");
  if (auto format = reader.require_format(kTuningFormat); !format) return fail(std::move(format.error()));
  auto tiles = read_rows<TuningRow>(reader, "tile", read_tile);
  if (!tiles) return fail(std::move(tiles.error()));
  auto preferences = read_rows<PreferenceRow>(reader, "preference", read_preference);
  if (!preferences) return fail(std::move(preferences.error()));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return TuningTable{std::move(name), owner, std::move(*tiles), std::move(*preferences)};
}

}  // namespace kernwright
