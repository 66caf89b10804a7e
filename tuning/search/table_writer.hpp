// A tuning table as text: what was decided, where and how it was measured, and the sources that it holds for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernwright/device.hpp"
#include "search/measurement.hpp"

namespace kernwright::tuning {

/// Where and when a table's rows were measured.
struct Origin {
  DeviceInfo device;
  std::string driver;    ///< Empty: none.
  std::string compiler;  ///< "nvrtc 13.0"
  std::string date;
  std::vector<std::string> shapes;
};

struct TunedTile {
  Subject subject;
  std::string digest;  ///< TemplateDefinition::digest
  Tile tile;
  std::optional<Tile> default_tile;  ///< What it was compared with; empty where that failed.
  double gain = 1;
  double noise = 0;
  std::string clocks = {};  ///< Of the device while its finals were timed; empty: it has none to watch.
};

/// The value of a parameter that an op may choose.
struct TunedChoice {
  std::string template_name;
  Specialisation known;  ///< The other parameters.
  std::string digest;
  std::string parameter;
  std::int64_t value = 0;
  double gain = 1;
  double noise = 0;
  std::string clocks = {};  ///< Of the device while its finals were timed; empty: it has none to watch.
};

/// TOML as TuningTables::add reads it. The same arguments give the same bytes.
std::string write_tuning_table(const Origin& origin, const std::vector<TunedTile>& tiles, const std::vector<TunedChoice>& choices);

}  // namespace kernwright::tuning
