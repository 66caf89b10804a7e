#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu/gpu_fixture.hpp"

namespace kernwright::gpu {

Runtime runtime(RuntimeOptions options) {
  if (const char* store = std::getenv("KERNWRIGHT_TEST_STORE"); store != nullptr && !options.store) {
    options.store = store;
  } else if (!options.store) {
    options.memory_only = true;
  }
  auto made = Runtime::create(std::move(options));
  REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
  return *made;
}

}  // namespace kernwright::gpu

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  const auto runtime = kernwright::Runtime::create();
  const auto devices = runtime ? runtime->cuda_devices() : kernwright::Result<std::vector<kernwright::DeviceInfo>>{};
  if (!devices || devices->empty()) {
    std::printf("skipped, no CUDA device: %s\n", devices ? "the driver lists none" : devices.error().text().c_str());
    return kSkipped;
  }
  for (const auto& device : *devices) {
    std::printf("%s: %s, %s\n", to_string(device.id).c_str(), device.name.c_str(), device.target.name().c_str());
  }
  std::fflush(stdout);
  doctest::Context context(argc, argv);
  return context.run();
}
