// kernwright bench sparse-mla
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench_peers.hpp"
#include "console.hpp"
#include "kernwright/device.hpp"
#include "kernwright/kernel.hpp"
#include "sparse_mla_points.hpp"
#include "support/sparse_mla_check.hpp"
#include "support/sparse_mla_work.hpp"
#include "support/spread.hpp"

namespace kernwright::tool {

struct BenchSparseMlaOptions {
  OutputOptions output;
  std::string json_file;    ///< Empty: none; "-": stdout.
  std::string report_file;  ///< Empty: none.
  std::vector<std::string> peer_files;
  SparseMlaPointWords points;
  std::int64_t heads = 8;
  std::string union_word = "auto";
  std::string tile;
  std::string target;
  std::string template_folder;  ///< Laid over the built-in templates; empty: those alone.
  bool deterministic = false;
  std::optional<int> repetitions;
  double peak_tflops = 0;  ///< 0: of the device where it is known.
  double peak_tbps = 0;
};

ExitCode bench_sparse_mla(const BenchSparseMlaOptions& options);

/// One shape and churn.
struct BenchPoint {
  std::string name;  ///< "1x8192 churn 0.05"
  std::int64_t tokens = 0, heads = 0, kv_rows = 0, topk = 0;
  int union_used = 0;
  std::string tile;
  support::SparseMlaCheck check;
  std::int64_t checked_tokens = 0;
  int rotated_inputs = 0;
  std::vector<double> total_ms, control_ms;    ///< Every sample; the control is the same thing measured once more.
  std::vector<std::vector<double>> launch_ms;  ///< Of each launch of the op.
  std::vector<std::string> launch_names;
  support::SparseMlaWork work;
  double floor_ms = 0;   ///< The larger of operations over peak_tflops and bytes over peak_tbps; 0 where neither rate is known.
  std::string floor_by;  ///< "arithmetic" or "memory"
};

struct BenchReport {
  DeviceInfo device;
  std::string driver, compiler, date, version;
  int repetitions = 0, warm_ups = 0;
  double peak_tflops = 0, peak_tbps = 0;
  std::vector<BenchPoint> points;
  std::vector<PrepareReport> kernels;
  std::vector<BenchPeer> peers;
};

std::string text_of(const BenchReport& report);  ///< At most 100 columns.
std::string json_of(const BenchReport& report);

}  // namespace kernwright::tool
