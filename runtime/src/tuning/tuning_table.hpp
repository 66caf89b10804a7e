// One tuning table: measured tiles, keyed by template, specialisation, target and device; never by the shape of a call. docs/tuning.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/tile.hpp"

namespace kernwright {

/// The target of a row that holds for any.
inline constexpr std::string_view kAnyTarget = "default";

struct TuningRow {
  std::string template_name;
  std::vector<Specialisation::Item> when;  ///< Parameters that must match; more of them is a better match.
  std::string target;                      ///< kAnyTarget: any.
  std::string device;                      ///< Empty: any device of the target.
  std::string digest;  ///< TemplateDefinition::digest of the sources that it was measured with; empty: it holds for any.
  Tile tile;
  std::string measured;  ///< Where and when, for people; empty: a default nobody measured.
};
/// A preferred value of a parameter that an op may choose by itself, e.g. group_size for union `auto`.
struct PreferenceRow {
  std::string template_name;
  std::vector<Specialisation::Item> when;
  std::string target;
  std::string device;
  std::string digest;
  std::string parameter;
  std::int64_t value = 0;
  std::string measured;
};

/// Whose table it is: the user's own, or one that comes with Kernwright.
enum class TableOwner : std::uint8_t { user, kernwright };

struct TuningTable {
  std::string name;  ///< A user's: the file's path.
  TableOwner owner = TableOwner::user;
  std::vector<TuningRow> tiles;
  std::vector<PreferenceRow> preferences;
};

/// malformed names file, line and key.
Result<TuningTable> parse_tuning_table(std::string_view toml, std::string name, TableOwner owner);

struct NamedText {
  std::string name;
  std::string content;
};
std::vector<NamedText> embedded_tuning_tables();

}  // namespace kernwright
