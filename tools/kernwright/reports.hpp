// What run and warm found, apart from how it is shown. Each has a text for people and a JSON document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/counters.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/warming.hpp"
#include "sparse_mla_recording.hpp"
#include "support/sparse_mla_check.hpp"

namespace kernwright::tool {

struct LaunchReport {
  PrepareReport prepared;
  Grid grid;
  int threads = 0;
  int dynamic_shared = 0;
  double median_ms = 0;
};

struct RunReport {
  DeviceInfo device;
  std::string input;  ///< Where it came from.
  std::int64_t tokens = 0, heads = 0, kv_rows = 0, topk = 0, d_qk = 0;
  std::optional<int> union_asked;  ///< Empty: auto.
  int union_used = 0;
  std::string union_reason;
  bool deterministic = false;
  Bytes workspace;
  std::vector<LaunchReport> launches;
  double total_ms = 0;
  int repetitions = 0, warm_ups = 0;
  std::optional<support::SparseMlaCheck> check;
  std::int64_t checked_tokens = 0;
  std::optional<RecordedComparison> recorded;
  std::string output;  ///< The file written; empty: none.
  Counters counters;
};

struct WarmReport {
  std::string store;
  std::string list;         ///< What was asked for, for people.
  std::string jobs_reason;  ///< What decided how many compiles ran at once.
  WarmSummary summary;
  double cpu_seconds = 0;  ///< User and system, compilers that were started included.
  int signal = 0;          ///< Not 0: the one that ended it early.
  /// The share of its time that each of the jobs kept a core busy.
  [[nodiscard]] double busy() const { return summary.seconds > 0 ? cpu_seconds / (summary.seconds * summary.jobs) : 0; }
};

std::string text_of(const RunReport& report);
std::string text_of(const WarmReport& report);

std::string json_of(const RunReport& report);
std::string json_of(const WarmReport& report);

}  // namespace kernwright::tool
