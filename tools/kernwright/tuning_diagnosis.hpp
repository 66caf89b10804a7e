// What doctor says of tuning tables: which are read, and how many of their rows hold for the devices that are here.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "prepare/runtime_state.hpp"
#include "store_diagnosis.hpp"

namespace kernwright::tool {

/// A table's rows for one template.
struct TemplateRows {
  std::string template_name;
  bool known = false;  ///< A built-in template. Another one is known once a program registers it, so these rows cannot be judged here.
  std::string digest;  ///< Of its sources as they are; empty where it is not known.
  std::size_t tiles = 0, preferences = 0;
  std::array<std::size_t, 4> by_closeness{};  ///< Rows that hold, by Closeness to the closest device that is here.
  std::size_t stale = 0;                      ///< Measured with other sources.
  std::vector<std::string> stale_digests;     ///< Of which; each once.
  std::vector<std::string> wrong;             ///< Why rows can never count, a sentence each.

  [[nodiscard]] std::size_t& holding(Closeness closeness) { return by_closeness[static_cast<std::size_t>(closeness)]; }
  [[nodiscard]] std::size_t holding(Closeness closeness) const { return by_closeness[static_cast<std::size_t>(closeness)]; }
};

struct TuningDiagnosis {
  std::string folder;  ///< The user's tables'; empty: none is named.
  std::string named_by;
  std::string failure;  ///< Not empty: no tables can be read, and a prepare that asks for no tile fails with it.
  struct Table {
    std::string name;
    bool built_in = false;
    std::vector<TemplateRows> templates;  ///< By name.
  };
  std::vector<Table> tables;  ///< In the order in which they are asked.
  struct Device {
    DeviceInfo device;
    std::size_t measured = 0;  ///< Measured tiles that hold for it or for its target.
  };
  std::vector<Device> devices;
  std::vector<Problem> problems;
};

/// `devices`: those that are here.
TuningDiagnosis diagnose_tuning(Runtime::State& state, const std::vector<DeviceInfo>& devices);

}  // namespace kernwright::tool
