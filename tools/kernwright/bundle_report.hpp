// What `cache pack` and `cache unpack` did.
#pragma once

#include <string>
#include <vector>

#include "support/bundle/pack.hpp"
#include "support/bundle/unpack.hpp"

namespace kernwright::tool {

struct PackReport {
  std::string store, file;
  support::Packed packed;
};
struct UnpackReport {
  std::string store, file;
  support::Unpacked unpacked;
};

std::string text_of(const PackReport& report);
std::string text_of(const UnpackReport& report);
std::string json_of(const PackReport& report);
std::string json_of(const UnpackReport& report);

}  // namespace kernwright::tool
