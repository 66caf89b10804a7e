#include "tuning/tuning_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "manifest/names.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kTuningFormat = 1;
constexpr std::string_view kAnyTarget = "default";

/// How closely a row names a device, farthest first.
enum class Closeness : std::uint8_t { none, any, target, device };

std::string_view name_of(Closeness closeness) {
  switch (closeness) {
    case Closeness::none: return "none";
    case Closeness::any: return "default";
    case Closeness::target: return "target";
    case Closeness::device: return "device";
  }
  return "none";
}

template <class Row>
Closeness closeness_of(const Row& row, const TuningTables::Query& query) {
  if (row.template_name != query.template_name) return Closeness::none;
  const Specialisation& known = query.specialisation;
  const DeviceInfo& device = query.device;
  const bool any_target = row.target == kAnyTarget;
  if (!any_target && row.target != device.target.name()) return Closeness::none;
  if (!row.device.empty() && row.device != device.name) return Closeness::none;
  if (!std::ranges::all_of(row.when, [&](const auto& item) { return known.get(item.name) == item.value; })) return Closeness::none;
  if (!row.device.empty()) return Closeness::device;
  return any_target ? Closeness::any : Closeness::target;
}

/// Whether the row was measured with other sources than the query's.
template <class Row>
bool is_stale(const Row& row, const TuningTables::Query& query) {
  return !row.digest.empty() && !query.digest.empty() && row.digest != query.digest;
}

/// The best of the rows that `wanted` accepts: a user's, then closest, then naming most parameters, then first. What a user wrote for a
/// whole target was meant for its devices as well, whatever we measured on one of them.
template <class Row, class Wanted>
std::pair<const Row*, Closeness> best(const std::vector<Row>& rows, const TuningTables::Query& query, Wanted wanted) {
  std::pair<const Row*, Closeness> chosen{nullptr, Closeness::none};
  for (const Row& row : rows) {
    if (!wanted(row)) continue;
    const Closeness closeness = closeness_of(row, query);
    if (closeness == Closeness::none) continue;
    const auto rank = [](const Row& each, Closeness close) { return std::tuple(each.owner == TableOwner::user, close, each.when.size()); };
    if (chosen.first == nullptr || rank(row, closeness) > rank(*chosen.first, chosen.second)) chosen = {&row, closeness};
  }
  return chosen;
}

/// What to say where the best row of all is a stale one.
template <class Row, class Wanted>
std::string stale_note(const std::vector<Row>& rows, const TuningTables::Query& query, Wanted wanted) {
  const Row* const row = best(rows, query, wanted).first;
  if (row == nullptr || !is_stale(*row, query)) return {};
  return fmt::format(
      "tuning table {} holds for other sources of {} than these, and its row for {} is passed over: tune anew, or take the row "
      "out",
      row->file_name, row->template_name, query.specialisation.text());
}

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

Result<> TuningTables::add(std::string_view toml, std::string_view file_name, TableOwner owner) {
  const auto table = parse_toml(toml, file_name);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, std::string(file_name), "");
  if (auto format = reader.require_format(kTuningFormat); !format) return fail(std::move(format.error()));
  auto tiles = read_rows<TuningRow>(reader, "tile", read_tile);
  if (!tiles) return fail(std::move(tiles.error()));
  auto preferences = read_rows<PreferenceRow>(reader, "preference", read_preference);
  if (!preferences) return fail(std::move(preferences.error()));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  // Only a table that is right from end to end counts.
  for (TuningRow& row : *tiles) tiles_.push_back({std::move(row), std::string(file_name), owner});
  for (PreferenceRow& row : *preferences) preferences_.push_back({std::move(row), std::string(file_name), owner});
  return {};
}

std::optional<TuningTables::Match> TuningTables::tile(const Query& query) const {
  const auto [row, closeness] = best(tiles_, query, [&](const TuningRow& each) { return !is_stale(each, query); });
  if (row == nullptr) return std::nullopt;
  return Match{row->tile, fmt::format("{} ({})", row->file_name, name_of(closeness)), !row->measured.empty()};
}

std::optional<PreferenceRow> TuningTables::preference(const Query& query, std::string_view parameter) const {
  const auto wanted = [&](const PreferenceRow& each) { return each.parameter == parameter && !is_stale(each, query); };
  const auto [row, closeness] = best(preferences_, query, wanted);
  if (row == nullptr) return std::nullopt;
  return *row;
}

std::string TuningTables::stale_tile(const Query& query) const {
  return stale_note(tiles_, query, [](const TuningRow&) { return true; });
}

std::string TuningTables::stale_preference(const Query& query, std::string_view parameter) const {
  return stale_note(preferences_, query, [&](const PreferenceRow& each) { return each.parameter == parameter; });
}

std::vector<std::string> TuningTables::device_names(const Target& target) const {
  std::set<std::string> names;
  const auto collect = [&](const auto& rows) {
    for (const auto& row : rows) {
      if (!row.device.empty() && (row.target == kAnyTarget || row.target == target.name())) names.insert(row.device);
    }
  };
  collect(tiles_);
  collect(preferences_);
  return {names.begin(), names.end()};
}

}  // namespace kernwright
