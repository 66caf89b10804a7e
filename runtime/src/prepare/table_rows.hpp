// The tuning tables' rows for one prepare: the first that can be used, and a warning for those that stand in its way.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "prepare/runtime_state.hpp"

namespace kernwright {

using TileMatches = std::vector<TuningTables::Match<TuningRow>>;

/// Every row that matches, best first. Warns once of each row for the template that can match nothing.
TileMatches table_rows(Runtime::State& state, const TuningTables& tables, const TemplateDefinition& definition,
                       const Specialisation& specialisation, const DeviceInfo& device);
/// Warns once of each row for the template that can match nothing.
void warn_of_unmatched_rows(Runtime::State& state, const TuningTables& tables, const Manifest& manifest);
/// Warns once a table and template that the table's rows were measured with other sources.
void warn_of_stale_rows(Runtime::State& state, const TuningTables& tables, std::string_view table, const TemplateDefinition& definition);
/// Warns once a table, template and tile.
void warn_of_illegal_tile(Runtime::State& state, const TuningTables::Match<TuningRow>& match, const Error& error);
/// Warns once a template that a default tile runs, where a search or a row would change that; a line of the log (info) otherwise.
void tell_of_default_tile(Runtime::State& state, const TuningTables& tables, const TemplateDefinition& definition,
                          const Specialisation& specialisation, const DeviceInfo& device);

template <class T>
struct FromTables {
  std::optional<T> value;    ///< Empty: no row can be used.
  bool passed_over = false;  ///< A row that is better than `value`'s cannot be used; a warning has said why.
};

/// What `make` answers for the tile of the first row that holds and is legal. A stale row and one whose tile is not legal are passed over
/// with a warning; an error that speaks of anything but the tile is the error here.
template <class Make, class T = typename std::invoke_result_t<Make, const Tile&>::value_type>
Result<FromTables<T>> first_legal(Runtime::State& state, const TuningTables& tables, const TemplateDefinition& definition,
                                  const TileMatches& matches, const Make& make) {
  FromTables<T> from;
  for (const auto& match : matches) {
    if (match.stale) {
      warn_of_stale_rows(state, tables, match.table, definition);
    } else {
      auto made = make(match.row.tile);
      if (made) {
        from.value = std::move(*made);
        return from;
      }
      const ErrorCode code = made.error().code;
      if (code != ErrorCode::invalid_argument && code != ErrorCode::unsupported) return fail(std::move(made.error()));
      warn_of_illegal_tile(state, match, made.error());
    }
    from.passed_over = true;
  }
  return from;
}

}  // namespace kernwright
