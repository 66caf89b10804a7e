// A backend over the fake driver.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "backend/backends.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "fake_driver/fake_cuda.hpp"

namespace kernwright::testing {

/// The control of the fake driver in `path` (KERNWRIGHT_FAKE_CUDA_…), as it is after a start.
inline fake_cuda::Control& fake_driver(const char* path = KERNWRIGHT_FAKE_CUDA_WHOLE) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, path);
  auto* const control = reinterpret_cast<fake_cuda::ControlFunction>(::dlsym(library, "fake_cuda_control"));
  REQUIRE((control != nullptr) == true);
  control()->reset();
  return *control();
}

inline std::shared_ptr<Backend> fake_backend(RuntimeOptions options = {}, const char* path = KERNWRIGHT_FAKE_CUDA_WHOLE) {
  options.cuda_driver = path;
  return make_cuda_backend(options, Logger{});
}

/// An artifact that the fake driver loads: its image lists one kernel.
inline Artifact fake_artifact(const std::string& entry = "kernel", std::uint64_t static_shared = 0) {
  Artifact artifact;
  artifact.request.template_name = "test/kernel";
  artifact.request.entry = entry;
  artifact.request.specialisation.set("heads", std::int64_t{8});
  artifact.request.tiles = {Tile{"mma", 64, 32, 2, 8}};
  artifact.request.target = *Target::parse("sm_90a");
  artifact.compiler = CompilerIdentity{"nvrtc", "13.0", {}};
  artifact.resources.static_shared = Bytes{static_shared};
  artifact.resources.registers = 64;
  const std::string image = std::string(
                                "\x7f"
                                "ELF") +
                            entry + std::string(2, '\0');
  for (const char c : image) artifact.binary.push_back(static_cast<std::byte>(c));
  return artifact;
}

inline Plan plan(int threads = 128, int dynamic_shared = 0, int params_bytes = 16) {
  return Plan{1, threads, dynamic_shared, 64, 0, 1, 0, params_bytes};
}

struct Prepared {
  std::shared_ptr<Backend> backend;
  std::unique_ptr<LoadedKernel> kernel;
};

inline Prepared prepared(int ordinal = 0, const Artifact& artifact = fake_artifact(), const char* path = KERNWRIGHT_FAKE_CUDA_WHOLE) {
  Prepared answer{fake_backend({}, path), nullptr};
  const auto devices = answer.backend->devices();
  REQUIRE_MESSAGE(devices.has_value(), devices.error().message);
  auto kernel = answer.backend->load((*devices).at(static_cast<std::size_t>(ordinal)), artifact);
  REQUIRE_MESSAGE(kernel.has_value(), kernel.error().message);
  answer.kernel = std::move(*kernel);
  return answer;
}

inline bool says(const Error& error, std::string_view part) {
  return error.message.find(part) != std::string::npos;
}

}  // namespace kernwright::testing
