// The process that tune measures in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "exit_code.hpp"
#include "kernwright/device.hpp"
#include "search/measurement_json.hpp"

namespace kernwright::tool {

/// The hidden subcommand that tune starts this program with.
inline constexpr const char* kTuneWorker = "tune-worker";

/// What a worker is told once, by the line that it reads first.
struct WorkerSetUp {
  DeviceId device;
  std::filesystem::path store, templates, references;  ///< `templates` empty: the built-in ones.
  std::string family;
  tuning::Json bench;  ///< What the family's bench reads.
  std::uint64_t seed = 1;
  int warm_ups = 3, repetitions = 15;
};
tuning::Json json_of(const WorkerSetUp& set_up);
/// malformed names the field.
Result<WorkerSetUp> set_up_of(const tuning::Json& json);

/// Reads requests from standard input until that ends, see search/worker_measurer.hpp.
ExitCode tune_worker();

}  // namespace kernwright::tool
