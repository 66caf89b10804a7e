// Compiles inline kernels for the host backend, loads and launches them, without templates, plans or stores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backends.hpp"

namespace kernwright::test {

inline constexpr HostMode kAllModes[] = {HostMode::fibers, HostMode::fibers_asan, HostMode::threads};

RuntimeOptions host_options(HostMode mode = HostMode::fibers, std::uint64_t seed = 1, int workers = 2);

BuildRequest kernel_request(const std::string& source, const std::string& name = "test/kernel.cu");

/// One loaded kernel. The source's entry is called `entry`.
struct TestKernel {
  std::shared_ptr<Backend> backend;
  std::unique_ptr<LoadedKernel> loaded;
  Plan plan;

  template <class Params>
  int launch(const Grid& grid, const Params& params) const {
    return loaded->launch(grid, plan, &params, nullptr);
  }
  /// The words for a launch that has to fail; empty where it did not.
  template <class Params>
  std::string failure(const Grid& grid, const Params& params) const {
    const int status = launch(grid, params);
    return status == 0 ? std::string() : loaded->explain(status, "the test's kernel", nullptr).message;
  }
};

/// Compiles (once a process for the same source and mode) and loads; fails the test case where that does not work.
TestKernel make_kernel(const RuntimeOptions& options, const std::string& source, int threads, std::size_t params_bytes,
                       int dynamic_shared = 0);

/// The line of `source`, from 1, that has `mark` in it, as a diagnosis writes it: "test/kernel.cu:7".
std::string place_of(const std::string& source, const std::string& mark);

}  // namespace kernwright::test
