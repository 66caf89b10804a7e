// What is compiled for.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright {

/// `sm_80` … `sm_90a`, `sm_100a`, …, or `host`. Kept as the exact string: sm_90 and sm_90a are different targets.
class Target {
 public:
  /// Accepts `host` and `sm_<digits>` with an optional suffix a or f.
  static Result<Target> parse(std::string_view text);
  static Target host();
  /// The target that Kernwright compiles for on a device of this capability (8.0 → sm_80, 9.0 → sm_90a, …). Capabilities below 8.0
  /// and unknown ones answer `unsupported`.
  static Result<Target> for_capability(int major, int minor);
  /// The nine CUDA targets that every template of ours compiles for.
  static std::span<const Target> all_cuda();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_host() const noexcept { return name_ == "host"; }
  /// 10·major + minor, e.g. 90 or 120; 0 for host.
  [[nodiscard]] int capability() const noexcept { return capability_; }
  /// The opt-in shared memory of a block on devices of this target, in bytes, as the CUDA programming guide lists it; 0 for host.
  [[nodiscard]] int shared_memory_bytes() const noexcept;

  friend bool operator==(const Target& a, const Target& b) noexcept { return a.name_ == b.name_; }
  friend auto operator<=>(const Target& a, const Target& b) noexcept { return a.name_ <=> b.name_; }

 private:
  Target(std::string name, int capability) : name_(std::move(name)), capability_(capability) {}
  std::string name_;
  int capability_ = 0;
};

}  // namespace kernwright
