// Tuning tables: measured tiles, keyed by template, specialisation, target and device; never by the shape of a call. docs/tuning.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/device.hpp"
#include "kernwright/result.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/tile.hpp"

namespace kernwright {

struct TuningRow {
  std::string template_name;
  std::vector<Specialisation::Item> when;  ///< Parameters that must match; more of them is a better match.
  std::string target;                      ///< "default": any.
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

class TuningTables {
 public:
  /// Rows of later calls rank behind rows of earlier ones that match equally well.
  Result<> add(std::string_view toml, std::string_view file_name, TableOwner owner);
  struct Match {
    Tile tile;
    std::string source;  ///< File name and what matched: "device", "target" or "default".
    bool measured = false;
  };
  /// What a look-up is for.
  struct Query {
    std::string_view template_name;
    const Specialisation& specialisation;
    const DeviceInfo& device;
    std::string_view digest;  ///< Of the template as it is now. Empty: not known, and no row is stale.
  };
  /// A user's row before any of ours; within each same device, then same target, then default; within one of these the row that names most
  /// parameters. A row for other sources than the query's is stale: it does not count.
  [[nodiscard]] std::optional<Match> tile(const Query& query) const;
  /// The same among rows for this parameter. `specialisation` holds what else is known.
  [[nodiscard]] std::optional<PreferenceRow> preference(const Query& query, std::string_view parameter) const;
  /// Where a stale row would have decided: the file that it stands in and what to do, as a sentence. Empty where none would.
  [[nodiscard]] std::string stale_tile(const Query& query) const;
  [[nodiscard]] std::string stale_preference(const Query& query, std::string_view parameter) const;
  /// The devices that rows for the target (or for any) name, sorted.
  [[nodiscard]] std::vector<std::string> device_names(const Target& target) const;

 private:
  template <class Row>
  struct Filed : Row {
    std::string file_name;
    TableOwner owner = TableOwner::user;
  };
  std::vector<Filed<TuningRow>> tiles_;
  std::vector<Filed<PreferenceRow>> preferences_;
};

struct NamedText {
  std::string name;
  std::string content;
};
std::vector<NamedText> embedded_tuning_tables();

}  // namespace kernwright
