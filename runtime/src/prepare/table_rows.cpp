#include "prepare/table_rows.hpp"

#include <fmt/format.h>

#include "core/specialised_name.hpp"
#include "tuning/row_check.hpp"
#include "tuning/search_command.hpp"

namespace kernwright {

void warn_of_unmatched_rows(Runtime::State& state, const TuningTables& tables, const Manifest& manifest) {
  const auto check = [&](const std::string& table, const auto& rows) {
    for (const auto& row : rows) {
      if (row.template_name != manifest.name) continue;
      if (const std::string problem = unmatched_problem(row, manifest); !problem.empty()) {
        state.warn_once(fmt::format("tuning table {} has a row for {} that matches nothing: {}", table, manifest.name, problem));
      }
    }
  };
  for (const TuningTable& table : tables.all()) {
    check(table.name, table.tiles);
    check(table.name, table.preferences);
  }
}

TileMatches table_rows(Runtime::State& state, const TuningTables& tables, const TemplateDefinition& definition,
                       const Specialisation& specialisation, const DeviceInfo& device) {
  warn_of_unmatched_rows(state, tables, definition.manifest);
  return tables.tiles({definition.manifest.name, specialisation, device, definition.digest});
}

void warn_of_stale_rows(Runtime::State& state, const TuningTables& tables, std::string_view table, const TemplateDefinition& definition) {
  const std::string& name = definition.manifest.name;
  const TuningTables::RowCount rows = tables.count(table, name, definition.digest);
  const std::string_view command = search_command(name);
  const bool one = rows.stale == 1;
  state.warn_once(fmt::format(
      "tuning table {} holds for other sources of {} than these, and {} of {} rows for it {} passed over; measure "
      "anew{}, or delete {}",
      table, name, rows.stale, rows.rows, one ? "is" : "are", command.empty() ? "" : fmt::format(" ({})", command), one ? "it" : "them"));
}

void warn_of_illegal_tile(Runtime::State& state, const TuningTables::Match<TuningRow>& match, const Error& error) {
  const std::string subject = fmt::format("illegal tile\n{}\n{}\n{}", match.table, match.row.template_name, match.row.tile.text());
  state.warn_once(subject, fmt::format("tuning table {} names a tile for {} that is passed over: {}", match.source(),
                                       match.row.template_name, error.text()));
}

void tell_of_default_tile(Runtime::State& state, const TuningTables& tables, const TemplateDefinition& definition,
                          const Specialisation& specialisation, const DeviceInfo& device) {
  const std::string& name = definition.manifest.name;
  const std::string fact = fmt::format("no tuning table has a tile of {} on {} ({}): a default tile runs",
                                       specialised_name(name, specialisation), device.name, device.target.name());
  // The interpreter's speed is nobody's measure, so nothing is missing there. Of a template that nobody ever measured nothing can be done.
  if (!device.target.is_host() && tables.has_measured_tile(name)) {
    const std::string_view command = search_command(name);
    const std::string remedy = command.empty()
                                   ? "a row in a table of KERNWRIGHT_TUNING_DIR chooses another"
                                   : fmt::format("`{}` measures tiles here and writes a table for KERNWRIGHT_TUNING_DIR", command);
    const std::string subject = fmt::format("default tile\n{}\n{}", name, device.name);
    if (state.warn_once(subject, fmt::format("{}; {}", fact, remedy))) return;
  }
  state.logger(LogLevel::info, fact);
}

}  // namespace kernwright
