#include "kernwright/target.hpp"

#include <array>
#include <charconv>
#include <string>
#include <vector>

namespace kernwright {
namespace {

struct Known {
  int capability;
  std::string_view name;
  int shared_memory_bytes;  // CUDA C++ programming guide, "Technical specifications per compute capability": maximum per thread block
};
constexpr std::array<Known, 9> kKnown{{{80, "sm_80", 163 * 1024},
                                       {86, "sm_86", 99 * 1024},
                                       {89, "sm_89", 99 * 1024},
                                       {90, "sm_90a", 227 * 1024},
                                       {100, "sm_100a", 227 * 1024},
                                       {103, "sm_103a", 227 * 1024},
                                       {110, "sm_110a", 227 * 1024},
                                       {120, "sm_120a", 99 * 1024},
                                       {121, "sm_121a", 99 * 1024}}};
constexpr int kSmallestCapability = 80;

}  // namespace

Result<Target> Target::parse(std::string_view text) {
  if (text == "host") return host();
  int capability = 0;
  if (text.starts_with("sm_")) {
    std::string_view digits = text.substr(3);
    if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.remove_suffix(1);
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), capability);
    if (problem == std::errc{} && end == digits.data() + digits.size() && digits.size() <= 3 && digits.front() != '0' &&
        capability >= kSmallestCapability) {
      return Target(std::string(text), capability);
    }
  }
  std::string known;
  for (const Known& k : kKnown) known += std::string(k.name) + ", ";
  return fail(ErrorCode::invalid_argument, "target '" + std::string(text.substr(0, 40)) + "' is none of: " + known +
                                               "host (or another sm_NN of capability 8.0 or later, with an optional suffix a or f)");
}

Target Target::host() {
  return Target("host", 0);
}

Result<Target> Target::for_capability(int major, int minor) {
  const int capability = major * 10 + minor;
  for (const Known& known : kKnown) {
    if (known.capability == capability) return Target(std::string(known.name), capability);
  }
  const std::string asked = std::to_string(major) + "." + std::to_string(minor);
  if (capability < kSmallestCapability) {
    return fail(ErrorCode::unsupported, "compute capability " + asked + " is below 8.0, the first that the templates are written for");
  }
  // A device that the table does not list: its own target before 10.0, from there the family target of its major version. The compiler
  // accepts it or refuses it with its list.
  constexpr int kFirstFamily = 10;
  if (major < kFirstFamily) return Target("sm_" + std::to_string(capability), capability);
  return Target("sm_" + std::to_string(major * 10) + "f", capability);
}

std::span<const Target> Target::all_cuda() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all;
    for (const Known& known : kKnown) all.push_back(Target(std::string(known.name), known.capability));
    return all;
  }();
  return targets;
}

int Target::shared_memory_bytes() const noexcept {
  if (is_host()) return 0;
  int bytes = 99 * 1024;  // an unknown target: what every listed one has at least
  for (const Known& known : kKnown) {
    if (known.capability == capability_) bytes = known.shared_memory_bytes;
  }
  return bytes;
}

}  // namespace kernwright
