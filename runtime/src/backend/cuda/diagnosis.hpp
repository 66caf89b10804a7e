// What `kernwright doctor` says about the driver and NVRTC.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernwright/runtime.hpp"

namespace kernwright {

/// An empty problem means that the part works.
struct CudaDiagnosis {
  std::filesystem::path driver_path;  ///< Empty where none could be opened.
  std::string driver_version;         ///< The CUDA version it supports, "13.0".
  std::string driver_problem;

  std::filesystem::path nvrtc_path;  ///< The real file.
  std::string nvrtc_found_by;        ///< The place of the search that had it.
  std::string nvrtc_version;
  std::vector<std::pair<std::string, std::string>> nvrtc_identity;  ///< The components of the entries' key.
  std::vector<std::string> supported_targets;                       ///< As NVRTC lists them: sm_80, … without suffixes.
  std::string nvrtc_problem;

  std::filesystem::path builtins_path;
  bool builtins_ok = false;  ///< A kernel that needs them compiled.
  std::string builtins_problem;

  std::string mismatch;  ///< Not empty: driver and NVRTC work, but the driver is older than NVRTC's major version.
};

/// Opens the driver and NVRTC and compiles a small kernel. `options` have been resolved against the environment. Never fails.
CudaDiagnosis diagnose_cuda(const RuntimeOptions& options);

/// "0000:3b:00.0", by which other tools know the device; empty where the driver does not say.
std::string cuda_pci_bus(const RuntimeOptions& options, int ordinal);

}  // namespace kernwright
