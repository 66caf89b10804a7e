// What doctor found, apart from how it is shown.
#pragma once

#include <string>
#include <vector>

#include "kernwright/device.hpp"
#include "store_diagnosis.hpp"
#include "tuning_diagnosis.hpp"

namespace kernwright::tool {

/// What a sealed process would take for its compiler, per kind of compiler.
struct SealedStart {
  std::string family;                  ///< "nvrtc" or "host"
  std::vector<std::string> compilers;  ///< The stores', in the order in which their entries are asked for; empty: none.
  std::string problem;                 ///< Why there is none.
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
  std::vector<StoreDiagnosis> stores;  ///< In the order in which a run asks them.
  bool sealed = false;
  std::vector<SealedStart> sealed_starts;
  TuningDiagnosis tuning;
  bool cuda_works = false, host_works = false;
  struct Finding {
    Problem problem;
    bool stops_a_run = false;  ///< On every target; otherwise on one of them, or nothing but speed is lost.
  };
  std::vector<Finding> problems;
};

std::string text_of(const DoctorReport& report);
std::string json_of(const DoctorReport& report);

}  // namespace kernwright::tool
