// A real file system of a few pages, mounted for some processes alone.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "robustness/process.hpp"

namespace kernwright::robustness {

/// A tmpfs in user and mount namespaces of its own, for which a user needs no rights on most systems. It goes when the object does.
class SmallDisk {
 public:
  /// `folder` is there; `output`: a file for the helper's words.
  SmallDisk(const std::filesystem::path& folder, std::size_t bytes, const std::filesystem::path& output);
  /// Empty where it is mounted; else why this machine does not let its users mount.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Words before those of a command that is to see the disk at its folder.
  [[nodiscard]] std::vector<std::string> prefix() const;

 private:
  Barrier barrier_;
  Process keeper_;  ///< Holds the namespaces until its input ends.
  std::string problem_;
};

}  // namespace kernwright::robustness
