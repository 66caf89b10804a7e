// What devices were measured to sustain: the floor of a kernel is what its device was seen to do, not what a data sheet says.
#pragma once

#include <string_view>

namespace kernwright::tool {

struct KnownRates {
  double tflops = 0;  ///< bf16 products of random data, 8192³.
  double tbps = 0;    ///< A copy, bytes read and written.
};
/// Zeros for a device that nobody measured.
constexpr KnownRates known_rates(std::string_view device) {
  if (device == "NVIDIA H200") return {790, 4.3};
  return {};
}

}  // namespace kernwright::tool
