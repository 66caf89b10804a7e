// A fit: tile A was asked for, tile B fitted, on which device, and why.
#pragma once

#include <string>
#include <string_view>

#include "artifact.hpp"
#include "kernwright/device.hpp"

namespace kernwright {

struct Fit {
  std::string template_name;
  std::string specialisation;  ///< Specialisation::text().
  std::string target;
  std::string device_name;
  int capability_major = 0;
  int capability_minor = 0;
  Bytes shared_memory_per_block;
  std::string compiler;  ///< CompilerIdentity name and version, for a reader.
  Tile asked;
  Tile fitted;
  std::string reason;
  friend bool operator==(const Fit&, const Fit&) = default;
};

struct FitKey {
  EntryKey hash;
  [[nodiscard]] std::string hex() const { return hash.hex(); }
};
/// Over: digest of the template's manifest and sources, specialisation, target, options; device name, capability, opt-in bytes; compiler;
/// tile asked for. Never the shape of a call.
FitKey fit_key(std::string_view template_digest, const BuildRequest& request, const DeviceInfo& device, const CompilerIdentity& compiler,
               const Tile& asked);

/// One [[fit]] record with `format = 1`.
std::string write_fit(const Fit& fit);
Result<Fit> parse_fit(std::string_view toml);

}  // namespace kernwright
