// What the tests that compile share: this machine's NVRTC, or a message and a skip where it has none.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/nvrtc_compiler.hpp"

namespace kernwright::testing {

/// The search of a program without options.
inline NvrtcSearch machine_search() {
  return NvrtcSearch::from_process(RuntimeOptions{});
}

inline std::unique_ptr<NvrtcCompiler> make_compiler(NvrtcSearch search = machine_search(), double limit = 120) {
  return std::make_unique<NvrtcCompiler>(std::move(search), limit, Logger{});
}

/// False, with a message, where this machine has no NVRTC: `if (!nvrtc_present()) return;`.
inline bool nvrtc_present() {
  static const auto found = find_nvrtc(machine_search());
  if (!found) MESSAGE("skipped: this machine has no NVRTC " << NvrtcSearch::kMajor);
  return found.has_value();
}

inline Target target(const std::string& name) {
  auto parsed = Target::parse(name);
  REQUIRE(parsed.has_value());
  return *parsed;
}

inline BuildRequest request(std::string source, const std::string& target_name = "sm_90a", std::string entry = "kernel") {
  BuildRequest made;
  made.template_name = "test/kernel";
  made.entry = std::move(entry);
  made.target = target(target_name);
  made.tiles = {Tile{"mma", 64, 32, 2, 8}};
  made.sources = {SourceFile{"test/kernel.cu", std::move(source)}};
  return made;
}

/// A folder that is gone when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kernwright-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kernwright::testing
