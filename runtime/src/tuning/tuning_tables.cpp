#include "tuning/tuning_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

namespace kernwright {
namespace {

template <class Row>
using Rows = std::vector<Row> TuningTable::*;

template <class Row>
bool matches(const Row& row, const TuningTables::Query& query) {
  return row.template_name == query.template_name &&
         std::ranges::all_of(row.when, [&](const auto& item) { return query.specialisation.get(item.name) == item.value; });
}

/// What a user wrote for a whole target was meant for its devices as well, whatever we measured on one of them: so the owner comes first.
template <class Row, class Wanted>
std::vector<TuningTables::Match<Row>> ranked(const std::vector<TuningTable>& tables, Rows<Row> rows, const TuningTables::Query& query,
                                             Wanted wanted) {
  struct Ranked {
    TableOwner owner;
    TuningTables::Match<Row> match;
  };
  std::vector<Ranked> found;
  for (const TuningTable& table : tables) {
    for (const Row& row : table.*rows) {
      const Closeness closeness = closeness_to(row, query.device);
      if (closeness == Closeness::none || !wanted(row) || !matches(row, query)) continue;
      found.push_back({table.owner, {row, table.name, closeness, is_stale(row, query.digest)}});
    }
  }
  const auto rank = [](const Ranked& each) {
    return std::tuple(each.owner == TableOwner::user, each.match.closeness, each.match.row.when.size());
  };
  std::ranges::stable_sort(found, std::greater<>{}, rank);
  std::vector<TuningTables::Match<Row>> best_first;
  for (Ranked& each : found) best_first.push_back(std::move(each.match));
  return best_first;
}

}  // namespace

std::string_view to_string(Closeness closeness) {
  switch (closeness) {
    case Closeness::none: return "none";
    case Closeness::any: return kAnyTarget;
    case Closeness::target: return "target";
    case Closeness::device: return "device";
  }
  return "none";
}

template <class Row>
std::string TuningTables::Match<Row>::source() const {
  return fmt::format("{} ({})", table, to_string(closeness));
}
template struct TuningTables::Match<TuningRow>;
template struct TuningTables::Match<PreferenceRow>;

Result<> TuningTables::add(std::string_view toml, std::string_view name, TableOwner owner) {
  auto table = parse_tuning_table(toml, std::string(name), owner);
  if (!table) return fail(std::move(table.error()));
  tables_.push_back(std::move(*table));
  return {};
}

std::vector<TuningTables::Match<TuningRow>> TuningTables::tiles(const Query& query) const {
  return ranked(tables_, &TuningTable::tiles, query, [](const TuningRow&) { return true; });
}

std::vector<TuningTables::Match<PreferenceRow>> TuningTables::preferences(const Query& query, std::string_view parameter) const {
  return ranked(tables_, &TuningTable::preferences, query, [&](const PreferenceRow& row) { return row.parameter == parameter; });
}

bool TuningTables::has_measured_tile(std::string_view template_name) const {
  return std::ranges::any_of(tables_, [&](const TuningTable& table) {
    return std::ranges::any_of(table.tiles,
                               [&](const TuningRow& row) { return row.template_name == template_name && !row.measured.empty(); });
  });
}

TuningTables::RowCount TuningTables::count(std::string_view table, std::string_view template_name, std::string_view digest) const {
  RowCount counted;
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) {
      if (row.template_name != template_name) continue;
      ++counted.rows;
      if (is_stale(row, digest)) ++counted.stale;
    }
  };
  for (const TuningTable& each : tables_) {
    if (each.name != table) continue;
    add(each.tiles);
    add(each.preferences);
  }
  return counted;
}

std::vector<std::string> TuningTables::device_names(const Target& target) const {
  std::set<std::string> names;
  const auto collect = [&](const auto& rows) {
    for (const auto& row : rows) {
      if (!row.device.empty() && (row.target == kAnyTarget || row.target == target.name())) names.insert(row.device);
    }
  };
  for (const TuningTable& table : tables_) {
    collect(table.tiles);
    collect(table.preferences);
  }
  return {names.begin(), names.end()};
}

}  // namespace kernwright
