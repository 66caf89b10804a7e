// Runs the tuner for a family of kernels: lanes of workers, the journal, the table.
#pragma once

#include "kernwright/runtime.hpp"
#include "tune.hpp"
#include "tune_worker.hpp"

namespace kernwright::tool {

struct TuneSettings {
  OutputOptions output;
  Runtime runtime;
  std::vector<DeviceInfo> devices;  ///< Of one kind; each is a lane that takes the next subject.
  TuneFamily family;
  WorkerSetUp worker;  ///< But for the device and the references.
  tuning::ContestOptions contest;
  std::filesystem::path table, journal;
  int jobs = 1;
  double silence_seconds = 60;
};

struct TuneEnd {
  TuneReport report;
  int signal = 0;  ///< Not 0: the one that ended it early; then nothing was decided.
};
/// Errors: io where the table or the journal cannot be written, before anything is measured; else what keeps everything from being
/// measured. A kernel that fails is none.
Result<TuneEnd> run_tuning(const TuneSettings& settings);

}  // namespace kernwright::tool
