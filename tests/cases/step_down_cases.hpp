// Stepping down for real: fits written, read, ignored. Uses doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <filesystem>

#include "kernwright/runtime.hpp"

namespace kernwright::cases {

/// A folder under the system's temporary one, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Launches test/scale over 1,000 numbers with this kernel and says whether each came out right.
bool scales_rightly(const Runtime& runtime, DeviceId device, const Kernel& kernel, float factor);

void fit_is_written_and_differs_from_the_tile_asked_for(DeviceId device);
void next_process_starts_at_the_fit(DeviceId device);
void changed_source_ignores_the_fit(DeviceId device);
void oversized_grid_is_an_error_and_no_step_down(DeviceId device);
void shared_memory_limit_decides_the_tile(DeviceId device);

}  // namespace kernwright::cases
