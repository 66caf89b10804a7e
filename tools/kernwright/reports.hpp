// What the subcommands found, apart from how it is shown. Each has a text for people and a JSON document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/counters.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/warming.hpp"
#include "support/bundle/pack.hpp"
#include "support/bundle/unpack.hpp"
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

struct CacheEntryReport {
  std::string key;
  std::string kind;  ///< "kernel" or "plans"; empty where the entry is bad.
  std::string template_name, specialisation, tile, target, compiler;
  Bytes size;
  std::int64_t modified_seconds = 0;
  ResourceUse resources;
  Bytes binary;
  double compile_seconds = 0;
  std::vector<std::string> sources;
  std::string log;
  std::string problem;  ///< Not empty: why the entry is bad.
};
struct CacheFitReport {
  std::string key, template_name, specialisation, target, device, tile_asked, tile_fitted, reason;
};
struct CacheReport {
  std::string store;
  std::vector<CacheEntryReport> entries;
  std::vector<CacheFitReport> fits;
  std::vector<std::string> compilers;
  [[nodiscard]] std::int64_t bad() const;
};
struct ClearReport {
  std::string store;
  std::uint64_t entries = 0, fits = 0;
  Bytes bytes;
};
struct PackReport {
  std::string store, file;
  support::Packed packed;
};
struct UnpackReport {
  std::string store, file;
  support::Unpacked unpacked;
};

/// "nvrtc 13.0, record <32 hex digits>" for each.
std::vector<std::string> compiler_lines(const support::BundleManifest& contents);

struct StoreDiagnosis {
  std::string folder;  ///< Empty: memory only.
  bool exists = false;
  bool writable = false;  ///< Or can be created.
  bool own = false;       ///< The folder, or the one it would be made in, is this user's.
  std::uint32_t owner = 0;
  Bytes free;
  std::string problem;
};
struct DoctorReport {
  std::string version;
  std::string driver_path, driver_version, driver_problem;
  std::string nvrtc_path, nvrtc_found_by, nvrtc_version, nvrtc_problem;
  std::string builtins_path, builtins_problem;
  std::vector<std::string> nvrtc_targets;
  std::string mismatch;
  std::vector<DeviceInfo> devices;
  std::string devices_problem;
  std::string host_compiler, host_problem;
  DeviceInfo host;
  StoreDiagnosis store;
  bool cuda_works = false, host_works = false;
  struct Problem {
    std::string what;
    std::string remedy;
    bool stops_a_run = false;  ///< On every target; otherwise on one of them, or nothing but speed is lost.
  };
  std::vector<Problem> problems;
};

std::string text_of(const RunReport& report);
std::string text_of(const WarmReport& report);
std::string list_text(const CacheReport& report);
std::string verify_text(const CacheReport& report);
std::string text_of(const CacheEntryReport& entry);
std::string text_of(const ClearReport& report);
std::string text_of(const PackReport& report);
std::string text_of(const UnpackReport& report);
std::string text_of(const DoctorReport& report);

std::string json_of(const RunReport& report);
std::string json_of(const WarmReport& report);
std::string json_of(const CacheReport& report);
std::string json_of(const CacheEntryReport& entry);
std::string json_of(const ClearReport& report);
std::string json_of(const PackReport& report);
std::string json_of(const UnpackReport& report);
std::string json_of(const DoctorReport& report);

}  // namespace kernwright::tool
