#include "target_choice.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace kernwright::tool {

Result<ChosenDevice> choose_device(const Runtime& runtime, std::string_view target) {
  const auto host = [&](std::string why) -> Result<ChosenDevice> {
    Result<DeviceInfo> device = runtime.device(DeviceId::host());
    if (!device) return fail(std::move(device.error()));
    return ChosenDevice{std::move(*device), std::move(why)};
  };
  if (target == "host") return host({});
  if (target == "auto") {
    Result<std::vector<DeviceInfo>> devices = runtime.cuda_devices();
    if (devices && !devices->empty()) return ChosenDevice{devices->front(), {}};
    return host(fmt::format("running on host, Kernwright's interpreter: {}",
                            devices ? "the driver finds no CUDA device" : devices.error().message));
  }
  Result<Target> wanted = Target::parse(target);
  if (!wanted) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--target {}: legal are auto, host and the target of a device here (sm_90a, …)", target));
  }
  Result<std::vector<DeviceInfo>> devices = runtime.cuda_devices();
  if (!devices) return fail(std::move(devices.error()));
  std::string present;
  for (const DeviceInfo& device : *devices) {
    if (device.target == *wanted) return ChosenDevice{device, {}};
    present += fmt::format("{}{} ({})", present.empty() ? "" : ", ", device.target.name(), device.name);
  }
  return fail(ErrorCode::unsupported,
              fmt::format("--target {}: no device here is one; legal are auto, host{}{}", target, present.empty() ? "" : " and ", present));
}

std::string target_word(const std::string& option, std::string_view otherwise) {
  if (!option.empty()) return option;
  const char* const variable = std::getenv("KERNWRIGHT_TARGET");
  return variable != nullptr && *variable != '\0' ? std::string(variable) : std::string(otherwise);
}

}  // namespace kernwright::tool
