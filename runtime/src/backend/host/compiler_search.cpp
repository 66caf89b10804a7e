#include "backend/host/compiler_search.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "backend/host/child_process.hpp"
#include "backend/host/sanitizers.hpp"
#include "key/key.hpp"

namespace kernwright::host {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool executable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

/// A name with '/' is a path; another is looked up on PATH.
std::optional<fs::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    const fs::path path = fs::absolute(name, error);
    return executable(path) ? std::optional(path) : std::nullopt;
  }
  std::string folders = environment("PATH");
  if (folders.empty()) folders = "/usr/local/bin:/usr/bin:/bin";
  for (std::string_view left = folders; !left.empty();) {
    const std::string_view folder = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(left.size(), folder.size() + 1));
    if (folder.empty() || folder.front() != '/') continue;  // never the current folder
    if (fs::path path = fs::path(folder) / name; executable(path)) return path;
  }
  return std::nullopt;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    const std::size_t end = std::min(text.size(), text.find_first_of(" \t"));
    list.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return list;
}

struct Candidate {
  std::string origin;  // for messages
  std::vector<std::string> words;
};

std::vector<Candidate> candidates(const std::optional<std::string>& setting) {
  if (setting) return {{"the setting host.compiler", {*setting}}};
  if (const std::string variable = environment("CXX"); !words(variable).empty()) return {{"CXX", words(variable)}};
  std::vector<Candidate> list;
#if defined(__clang__)
  if (kBuiltWithAsan || kBuiltWithTsan) {
    list.push_back({"the default", {fmt::format("clang++-{}", __clang_major__)}});
    list.push_back({"the default", {"clang++"}});
  }
#endif
  list.push_back({"the default", {"g++"}});
  list.push_back({"the default", {"clang++"}});
  return list;
}

Result<std::string> version_of(const FoundCompiler& compiler, double time_limit_seconds) {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  ChildCommand command{
      compiler.program, {compiler.program.string()}, compiler_environment(error ? fs::path("/") : folder), "/", time_limit_seconds};
  command.arguments.insert(command.arguments.end(), compiler.arguments.begin(), compiler.arguments.end());
  command.arguments.emplace_back("--version");
  auto outcome = run_child(command);
  if (!outcome) return fail(std::move(outcome.error()));
  std::string line = outcome->output.substr(0, outcome->output.find('\n'));
  if (outcome->exit_code != 0 || line.empty()) {
    return fail(ErrorCode::compiler_unavailable,
                fmt::format("{} --version answered {}{}{}", compiler.program.string(), outcome->exit_code, line.empty() ? "" : ": ", line));
  }
  return line;
}

Result<std::string> hash_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return fail(ErrorCode::io, fmt::format("cannot read the compiler {}", path.string()));
  return content_hash(bytes);
}

}  // namespace

std::vector<std::string> compiler_environment(const fs::path& folder) {
  // CCACHE_DISABLE: where the compiler is ccache's link, Kernwright's own store is the cache.
  std::vector<std::string> list{"LC_ALL=C", "CCACHE_DISABLE=1", "TMPDIR=" + folder.string()};
  for (const char* const name : {"PATH", "HOME", "LD_LIBRARY_PATH"}) {
    if (const char* const value = std::getenv(name); value != nullptr) list.push_back(fmt::format("{}={}", name, value));
  }
  return list;
}

Result<FoundCompiler> find_compiler(const std::optional<std::string>& setting, double time_limit_seconds) {
  std::string looked_for;
  for (const Candidate& candidate : candidates(setting)) {
    const auto program = find_program(candidate.words.front());
    if (!program) {
      looked_for += fmt::format("{}{} ({})", looked_for.empty() ? "" : ", ", candidate.words.front(), candidate.origin);
      continue;
    }
    FoundCompiler found;
    found.program = *program;
    found.arguments.assign(candidate.words.begin() + 1, candidate.words.end());
    auto version = version_of(found, time_limit_seconds);
    if (!version) return fail(std::move(version.error()).within(fmt::format("asking {} for its version", program->string())));
    found.version = std::move(*version);
    auto hash = hash_of(*program);
    if (!hash) return fail(std::move(hash.error()));
    found.content_hash = std::move(*hash);
    return found;
  }
  return fail(ErrorCode::compiler_unavailable,
              fmt::format("the host backend needs a C++ compiler and found none; looked for {}; install g++, or name a compiler by the "
                          "setting host.compiler or by CXX",
                          looked_for));
}

}  // namespace kernwright::host
