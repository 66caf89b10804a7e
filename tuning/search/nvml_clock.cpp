#include "search/nvml_clock.hpp"

#include <fmt/format.h>

#include "backend/cuda/dynamic_library.hpp"

namespace kernwright::tuning {
namespace {

// The part of NVML's C interface that is used here; nvml.h comes with no package that the build needs.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;
using InitFunction = int (*)();
using ShutdownFunction = int (*)();
using HandleFunction = int (*)(const char*, NvmlDevice*);
using ClockFunction = int (*)(NvmlDevice, int, unsigned*);
using ReasonsFunction = int (*)(NvmlDevice, unsigned long long*);

template <class Function>
Function entry(const DynamicLibrary& library, const char* name) {
  return reinterpret_cast<Function>(library.find(name));
}

class NvmlClock final : public ClockSource {
 public:
  NvmlClock(DynamicLibrary library, NvmlDevice device)
      : library_(std::move(library)),
        shutdown_(entry<ShutdownFunction>(library_, "nvmlShutdown")),
        clock_(entry<ClockFunction>(library_, "nvmlDeviceGetClockInfo")),
        reasons_(entry<ReasonsFunction>(library_, "nvmlDeviceGetCurrentClocksThrottleReasons")),
        device_(device) {}
  NvmlClock(const NvmlClock&) = delete;
  NvmlClock& operator=(const NvmlClock&) = delete;
  ~NvmlClock() override { shutdown_(); }

  std::optional<ClockSample> sample() override {
    unsigned mhz = 0;
    unsigned long long reasons = 0;
    if (clock_(device_, kNvmlClockSm, &mhz) != kNvmlSuccess) return std::nullopt;
    // Some devices do not tell the reasons; a changed clock is seen all the same.
    if (reasons_ == nullptr || reasons_(device_, &reasons) != kNvmlSuccess) reasons = 0;
    return ClockSample{mhz, reasons};
  }

 private:
  DynamicLibrary library_;
  ShutdownFunction shutdown_;
  ClockFunction clock_;
  ReasonsFunction reasons_;
  NvmlDevice device_;
};

}  // namespace

Result<std::unique_ptr<ClockSource>> open_nvml_clock(const std::string& library, const std::string& pci_bus) {
  const auto refuse = [](std::string why) { return fail(ErrorCode::unsupported, std::move(why)); };
  if (pci_bus.empty()) return refuse("the driver does not tell the device's PCI address");
  auto opened = DynamicLibrary::open(library, DynamicLibrary::Lifetime::resident);
  if (!opened) return refuse(library + " could not be opened");
  const auto init = entry<InitFunction>(*opened, "nvmlInit_v2");
  const auto find = entry<HandleFunction>(*opened, "nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || find == nullptr || opened->find("nvmlShutdown") == nullptr || opened->find("nvmlDeviceGetClockInfo") == nullptr) {
    return refuse(library + " lacks functions of NVML");
  }
  if (const int code = init(); code != kNvmlSuccess) return refuse(fmt::format("{} does not start: NVML error {}", library, code));
  NvmlDevice device = nullptr;
  if (const int code = find(pci_bus.c_str(), &device); code != kNvmlSuccess) {
    entry<ShutdownFunction>(*opened, "nvmlShutdown")();
    return refuse(fmt::format("{} does not know the device {}: NVML error {}", library, pci_bus, code));
  }
  auto clock = std::make_unique<NvmlClock>(std::move(*opened), device);
  if (!clock->sample()) return refuse(fmt::format("{} does not tell the clock of {}", library, pci_bus));
  return std::unique_ptr<ClockSource>(std::move(clock));
}

}  // namespace kernwright::tuning
