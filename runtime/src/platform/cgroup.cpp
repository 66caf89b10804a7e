#include "platform/cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace kernwright {
namespace {

namespace fs = std::filesystem;

/// The words of a line.
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// mountinfo writes blanks, tabs and backslashes as three octal digits.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr == text.data() + i + 4) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool has_item(std::string_view list, std::string_view item) {
  for (;;) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == item) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

/// A hierarchy of groups: version 2's (`controller` empty), or the one of version 1 that has the controller.
struct Hierarchy {
  fs::path mount;    ///< Where its files are.
  std::string root;  ///< The group that the mount shows as its top.
};

std::optional<Hierarchy> find_hierarchy(const fs::path& proc, std::string_view controller) {
  for (const std::string& line : lines_of(proc / "self" / "mountinfo")) {
    // 36 25 0:32 /root /mount/point rw,… [optional fields] - cgroup2 source super,options
    const std::vector<std::string> words = words_of(line);
    const auto separator = std::ranges::find(words, "-");
    if (separator - words.begin() < 6 || words.end() - separator < 4) continue;
    const bool right = controller.empty() ? separator[1] == "cgroup2" : separator[1] == "cgroup" && has_item(separator[3], controller);
    if (right) return Hierarchy{unescaped(words[4]), unescaped(words[3])};
  }
  return std::nullopt;
}

/// The process's group in that hierarchy, as self/cgroup writes it: "4:cpu,cpuacct:/a/b", "0::/a/b".
std::optional<std::string> group_of_process(const fs::path& proc, std::string_view controller) {
  for (const std::string& line : lines_of(proc / "self" / "cgroup")) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : has_item(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The folders of the process's group and of those above it, as far up as the mount shows.
std::vector<fs::path> group_folders(const fs::path& proc, std::string_view controller) {
  const auto hierarchy = find_hierarchy(proc, controller);
  const auto group = group_of_process(proc, controller);
  if (!hierarchy || !group) return {};
  std::string_view below = *group;
  const std::string_view root = hierarchy->root == "/" ? std::string_view{} : std::string_view(hierarchy->root);
  const bool inside = below.starts_with(root) && (below.size() == root.size() || below[root.size()] == '/');
  // A group outside of what is mounted here (another namespace's): the mount's top is the nearest that can be read.
  below = inside && below.find("/..") == std::string_view::npos ? below.substr(root.size()) : std::string_view{};
  std::vector<fs::path> folders{hierarchy->mount};
  for (const fs::path& part : fs::path(below).relative_path()) {
    if (!part.empty()) folders.push_back(folders.back() / part);
  }
  return folders;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;  // "max" among others
  return value;
}

/// The file's first number, where it begins with one.
std::optional<std::int64_t> file_number(const fs::path& file) {
  const auto lines = lines_of(file);
  const auto words = lines.empty() ? std::vector<std::string>{} : words_of(lines.front());
  return words.empty() ? std::nullopt : number(words.front());
}

/// A line "key number" of memory.stat; 0 where there is none.
std::int64_t statistic(const fs::path& file, std::string_view key) {
  for (const std::string& line : lines_of(file)) {
    const auto words = words_of(line);
    if (words.size() == 2 && words[0] == key) return number(words[1]).value_or(0);
  }
  return 0;
}

void tighten(std::optional<double>& limit, std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limit = std::min(limit.value_or(cpus), cpus);
}

void tighten(std::optional<Bytes>& left, std::optional<std::int64_t> limit, std::optional<std::int64_t> used, std::int64_t reclaimable) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 writes "none" as the largest number of pages
  if (!limit || !used || *limit < 0 || *limit >= kNoLimit) return;
  const std::int64_t kept = std::max<std::int64_t>(0, *used - reclaimable);
  const Bytes here{static_cast<std::uint64_t>(std::max<std::int64_t>(0, *limit - kept))};
  left = std::min(left.value_or(here), here);
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& proc) {
  CgroupLimits limits;
  for (const fs::path& folder : group_folders(proc, "")) {
    const auto lines = lines_of(folder / "cpu.max");
    const auto words = lines.empty() ? std::vector<std::string>{} : words_of(lines.front());
    if (words.size() == 2) tighten(limits.cpus, number(words[0]), number(words[1]));
    for (const char* file : {"memory.max", "memory.high"}) {
      tighten(limits.memory_left, file_number(folder / file), file_number(folder / "memory.current"),
              statistic(folder / "memory.stat", "inactive_file"));
    }
  }
  for (const fs::path& folder : group_folders(proc, "cpu")) {
    tighten(limits.cpus, file_number(folder / "cpu.cfs_quota_us"), file_number(folder / "cpu.cfs_period_us"));
  }
  for (const fs::path& folder : group_folders(proc, "memory")) {
    tighten(limits.memory_left, file_number(folder / "memory.limit_in_bytes"), file_number(folder / "memory.usage_in_bytes"),
            statistic(folder / "memory.stat", "total_inactive_file"));
  }
  return limits;
}

}  // namespace kernwright
