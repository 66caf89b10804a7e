// Every tuning table that a runtime reads, and what they say for one specialisation on one device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/device.hpp"
#include "tuning/tuning_table.hpp"

namespace kernwright {

/// How closely a row names a device, farthest first.
enum class Closeness : std::uint8_t { none, any, target, device };
/// "none", "default", "target" or "device".
std::string_view to_string(Closeness closeness);
/// What the row says of devices alone; `none`: it is for others.
template <class Row>
Closeness closeness_to(const Row& row, const DeviceInfo& device) {
  const bool any_target = row.target == kAnyTarget;
  if (!any_target && row.target != device.target.name()) return Closeness::none;
  if (!row.device.empty()) return row.device == device.name ? Closeness::device : Closeness::none;
  return any_target ? Closeness::any : Closeness::target;
}

/// Whether the row was measured with other sources than those of this digest. Empty: not known, and no row is stale.
template <class Row>
bool is_stale(const Row& row, std::string_view digest) {
  return !row.digest.empty() && !digest.empty() && row.digest != digest;
}

class TuningTables {
 public:
  /// Rows of later tables rank behind rows of earlier ones that match equally well. An error adds nothing.
  Result<> add(std::string_view toml, std::string_view name, TableOwner owner);
  [[nodiscard]] const std::vector<TuningTable>& all() const noexcept { return tables_; }

  /// What a look-up is for.
  struct Query {
    std::string_view template_name;
    const Specialisation& specialisation;  ///< What is known of it.
    const DeviceInfo& device;
    std::string_view digest;  ///< Of the template as it is now.
  };
  template <class Row>
  struct Match {
    Row row;
    std::string table;
    Closeness closeness = Closeness::none;
    bool stale = false;  ///< It does not hold; it is here so that it can be named.
    /// "mine.toml (device)"
    [[nodiscard]] std::string source() const;
  };
  /// Every row that matches, best first: a user's before any of ours; within each same device, then same target, then default; within one
  /// of these the row that names most parameters, then the first.
  [[nodiscard]] std::vector<Match<TuningRow>> tiles(const Query& query) const;
  /// The same among rows for this parameter.
  [[nodiscard]] std::vector<Match<PreferenceRow>> preferences(const Query& query, std::string_view parameter) const;

  /// Whether a row of any table, for whatever specialisation, device and sources, names a measured tile of the template.
  [[nodiscard]] bool has_measured_tile(std::string_view template_name) const;
  /// How many rows for the template the table has, and how many of them were measured with other sources.
  struct RowCount {
    std::size_t rows = 0;
    std::size_t stale = 0;
  };
  [[nodiscard]] RowCount count(std::string_view table, std::string_view template_name, std::string_view digest) const;
  /// The devices that rows for the target (or for any) name, sorted.
  [[nodiscard]] std::vector<std::string> device_names(const Target& target) const;

 private:
  std::vector<TuningTable> tables_;
};

}  // namespace kernwright
