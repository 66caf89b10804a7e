// Any text is a manifest or refused; what a manifest offers, it accepts.
#include "fuzz_target.hpp"
#include "manifest/manifest.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!manifest) {
    FUZZ_CHECK(manifest.error().code == ErrorCode::malformed && !manifest.error().message.empty());
    return 0;
  }
  Specialisation given;
  for (const ManifestParameter& parameter : manifest->parameters) {
    if (parameter.is_dtype) {
      given.set(parameter.name, parameter.dtypes.front());
    } else {
      given.set(parameter.name, parameter.values.empty() ? parameter.minimum : parameter.values.front());
    }
  }
  FUZZ_CHECK(manifest->complete(given));
  FUZZ_CHECK(!manifest->fall_back.empty());
  for (const Tile& tile : manifest->fall_back) FUZZ_CHECK(manifest->check_tile(tile));
  for (const Target& target : Target::all_cuda()) {
    FUZZ_CHECK(manifest->candidates(manifest->fall_back.back(), target).size() == manifest->candidates({}, target).size());
  }
  return 0;
}
