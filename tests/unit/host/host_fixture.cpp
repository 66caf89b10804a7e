#include "unit/host/host_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace kernwright::test {
namespace {

std::vector<std::byte> compiled(Backend& backend, HostMode mode, const std::string& source) {
  static std::mutex mutex;
  static std::map<std::pair<HostMode, std::string>, std::vector<std::byte>> known;
  const std::lock_guard lock(mutex);
  auto& binary = known[{mode, source}];
  if (binary.empty()) {
    auto output = backend.compiler().compile(kernel_request(source));
    REQUIRE_MESSAGE(output.has_value(), (output ? "" : output.error().message));
    binary = std::move(output->binary);
  }
  return binary;
}

}  // namespace

RuntimeOptions host_options(HostMode mode, std::uint64_t seed, int workers) {
  RuntimeOptions options;
  options.host.mode = mode;
  options.host.seed = seed;
  options.host.workers = workers;
  return options;
}

BuildRequest kernel_request(const std::string& source, const std::string& name) {
  BuildRequest request;
  request.template_name = "test/kernel";
  request.entry = "entry";
  request.sources.push_back({name, source});
  return request;
}

TestKernel make_kernel(const RuntimeOptions& options, const std::string& source, int threads, std::size_t params_bytes,
                       int dynamic_shared) {
  TestKernel kernel;
  kernel.backend = make_host_backend(options, {});
  kernel.plan.version = Plan::kVersion;
  kernel.plan.threads = threads;
  kernel.plan.dynamic_shared = dynamic_shared;
  kernel.plan.params_bytes = static_cast<std::int32_t>(params_bytes);
  Artifact artifact;
  artifact.request = kernel_request(source);
  artifact.binary = compiled(*kernel.backend, *options.host.mode, source);
  artifact.plans = {kernel.plan};
  auto loaded = kernel.backend->load(kernel.backend->devices()->front(), artifact);
  REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  kernel.loaded = std::move(*loaded);
  return kernel;
}

std::string place_of(const std::string& source, const std::string& mark) {
  const auto at = source.find(mark);
  REQUIRE(at != std::string::npos);
  const auto line = 1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return "test/kernel.cu:" + std::to_string(line);
}

}  // namespace kernwright::test
