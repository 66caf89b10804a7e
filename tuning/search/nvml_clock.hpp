// A GPU's clock by NVML, which is opened at run time and may be absent.
#pragma once

#include <memory>
#include <string>

#include "kernwright/result.hpp"
#include "search/clock_watch.hpp"

namespace kernwright::tuning {

/// `library`: libnvidia-ml.so.1, which comes with the driver; `pci_bus`: cuda_pci_bus(), since NVML numbers devices in its own
/// order. unsupported says why the clock cannot be watched.
Result<std::unique_ptr<ClockSource>> open_nvml_clock(const std::string& library, const std::string& pci_bus);

}  // namespace kernwright::tuning
