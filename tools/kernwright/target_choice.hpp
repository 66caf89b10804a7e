// Which device a command runs on.
#pragma once

#include <string>
#include <string_view>

#include "kernwright/runtime.hpp"

namespace kernwright::tool {

struct ChosenDevice {
  DeviceInfo device;
  std::string note;  ///< Not empty: why `auto` became the host interpreter.
};

/// `auto`: the first CUDA device, else the host interpreter. `host`: the interpreter. `sm_XX`: the first CUDA device that is that target.
/// invalid_argument: another word; driver_unavailable, unsupported: no device is that target.
Result<ChosenDevice> choose_device(const Runtime& runtime, std::string_view target);

/// The option where it was given, else KERNWRIGHT_TARGET, else `otherwise`.
std::string target_word(const std::string& option, std::string_view otherwise);

}  // namespace kernwright::tool
