// Tuning tables: measured tiles, keyed by template, specialisation, target and device; never by the shape of a call.
#pragma once

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
  Tile tile;
  std::string measured;  ///< Where and when, for people; empty: a default nobody measured.
};
/// A preferred value of a parameter that an op may choose by itself, e.g. group_size for union `auto`.
struct PreferenceRow {
  std::string template_name;
  std::vector<Specialisation::Item> when;
  std::string target;
  std::string device;
  std::string parameter;
  std::int64_t value = 0;
  std::string measured;
};

class TuningTables {
 public:
  /// Rows of later calls rank behind rows of earlier ones that match equally well.
  Result<> add(std::string_view toml, std::string_view file_name);
  struct Match {
    Tile tile;
    std::string source;  ///< File name and what matched: "device", "target" or "default".
    bool measured = false;
  };
  /// Same device, then same target, then default; within one of these the row that names most parameters.
  [[nodiscard]] std::optional<Match> tile(std::string_view template_name, const Specialisation& specialisation,
                                          const DeviceInfo& device) const;
  [[nodiscard]] std::optional<PreferenceRow> preference(std::string_view template_name, std::string_view parameter,
                                                        const Specialisation& known, const DeviceInfo& device) const;
  /// The devices that rows for the target (or for any) name, sorted.
  [[nodiscard]] std::vector<std::string> device_names(const Target& target) const;

 private:
  struct FiledRow : TuningRow {
    std::string file_name;
  };
  std::vector<FiledRow> tiles_;
  std::vector<PreferenceRow> preferences_;
};

struct NamedText {
  std::string name;
  std::string content;
};
std::vector<NamedText> embedded_tuning_tables();

}  // namespace kernwright
