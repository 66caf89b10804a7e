// Artifacts whose every byte follows from a number, so that any process knows what an entry must hold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fixtures/example_artifact.hpp"
#include "store/fit.hpp"

namespace kernwright::robustness {

inline constexpr int kArtifacts = 12;

/// Number 0 to kArtifacts - 1: another key, another length, other bytes.
inline Artifact artifact_number(int number) {
  Artifact artifact = tests::example_artifact_with(16 * (number + 1), 300 + 5000 * static_cast<std::size_t>(number));
  std::uint64_t state = 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(number + 1);
  for (std::byte& byte : artifact.binary) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
    byte = static_cast<std::byte>(state >> 56U);
  }
  return artifact;
}

inline FitKey fit_key_number(int number) {
  FitKey key;
  key.hash = digest(std::string(static_cast<std::size_t>(number + 1), 'f'));
  return key;
}

inline Fit fit_number(int number) {
  Fit fit;
  fit.template_name = "demo/scale";
  fit.specialisation = "heads=8 dtype=bf16";
  fit.target = "sm_90a";
  fit.device_name = "a device";
  fit.capability_major = 9;
  fit.shared_memory_per_block = {232448};
  fit.compiler = "nvrtc 13.0";
  fit.asked = {"mma", 128, 64, 3, 8};
  fit.fitted = {"mma", 64, 32, 2, 8};
  fit.reason = std::string(static_cast<std::size_t>(10 + 100 * number), static_cast<char>('a' + number));
  return fit;
}

}  // namespace kernwright::robustness
