// A store that a test of the cache commands writes: the example artifact, another tile of it, its plans, and a fit.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "fixtures/example_artifact.hpp"
#include "fixtures/example_fit.hpp"
#include "fixtures/file_times.hpp"
#include "fixtures/temporary_folder.hpp"
#include "platform/clock.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

namespace kernwright::tests {

/// The plans of two tiles, one of them not legal.
inline Artifact example_plans() {
  Artifact plans = example_artifact();
  plans.request.kind = ArtifactKind::plans;
  plans.request.entry.clear();
  plans.request.tiles = {Tile{"mma", 64, 32, 2, 8}, Tile{"mma", 128, 64, 3, 8}};
  plans.plans.emplace_back();
  plans.key = entry_key(plans.request, plans.compiler);
  plans.binary.clear();
  plans.resources = {};
  return plans;
}

class ExampleStore {
 public:
  explicit ExampleStore(const std::filesystem::path& path)
      : path_(path), store_(std::make_unique<Store>(path, FileSystem::posix(), Clock::system())) {}

  /// Written and last used so many seconds ago.
  std::filesystem::path add(const Artifact& artifact, std::int64_t written_ago = 0, std::int64_t used_ago = -1) {
    REQUIRE(store_->publish(artifact));
    const std::int64_t now = Clock::system()->unix_seconds();
    const std::string key = artifact.key.hex();
    set_file_time(entry_path(path_, key), now - written_ago);
    if (used_ago >= 0) {
      write_file(stamp_path(path_, key), "");
      set_file_time(stamp_path(path_, key), now - used_ago);
    }
    return entry_path(path_, key);
  }
  std::filesystem::path add_fit(const Fit& fit = example_fit(), char key = 'a') {
    REQUIRE(store_->publish_fit(example_fit_key(key), fit));
    return fit_path(path_, example_fit_key(key).hex());
  }
  [[nodiscard]] Store& store() const { return *store_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<Store> store_;
};

}  // namespace kernwright::tests
