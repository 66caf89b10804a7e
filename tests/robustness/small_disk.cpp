#include "robustness/small_disk.hpp"

#include <fmt/format.h>

namespace kernwright::robustness {
namespace {

constexpr const char* kEnv = "/usr/bin/env";
constexpr const char* kMount = R"(mount -t tmpfs -o "size=$1" none "$0" && echo mounted && exec cat)";

}  // namespace

SmallDisk::SmallDisk(const std::filesystem::path& folder, std::size_t bytes, const std::filesystem::path& output)
    : keeper_(kEnv, {{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", kMount, folder.string(), fmt::format("{}", bytes)},
                     {},
                     barrier_.input(),
                     output}) {
  const auto mounted = [&] { return keeper_.output().ends_with("mounted\n"); };
  if (!wait_until([&] { return mounted() || keeper_.ended(); }) || !mounted()) problem_ = "no small disk: " + keeper_.output();
}

std::vector<std::string> SmallDisk::prefix() const {
  return {kEnv, "nsenter", "--target", fmt::format("{}", keeper_.id()), "--user", "--mount", "--preserve-credentials"};
}

}  // namespace kernwright::robustness
