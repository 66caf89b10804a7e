#include "disassembler.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

// NVRTC's places, and the library's own way to start a program: neither is written twice.
#include "backend/cuda/nvrtc_search.hpp"
#include "backend/host/child_process.hpp"
#include "backend/host/temporary_folder.hpp"
#include "platform/file_system.hpp"
#include "support/format.hpp"

namespace kernwright::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "nvdisasm";
constexpr double kTimeLimitSeconds = 60;
constexpr Bytes kLongestText = mebibytes(256);

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code problem;
  for (fs::directory_iterator each(folder, fs::directory_options::skip_permission_denied, problem), end; !problem && each != end;
       each.increment(problem)) {
    folders.push_back(each->path());
  }
  std::ranges::sort(folders);
  return folders;
}

/// The packages folder's nvidia/*/bin.
void add_python_folder(const fs::path& packages, std::vector<fs::path>& places) {
  for (const fs::path& package : folders_in(packages / "nvidia")) places.push_back(package / "bin");
}

std::vector<fs::path> places_to_look_in(const RuntimeOptions& options) {
  std::vector<fs::path> places;
  for (const std::string& folder : support::split(environment("PATH"), ':')) {
    if (fs::path(folder).is_absolute()) places.emplace_back(folder);
  }
  const NvrtcSearch search = NvrtcSearch::from_process(options);
  for (const auto* libraries : {&search.folders, &search.toolkits}) {
    for (const fs::path& each : *libraries) places.push_back(each.parent_path() / "bin");
  }
  for (const fs::path& packages : search.python_folders) add_python_folder(packages, places);
  for (const fs::path& prefix : search.python_prefixes) {
    for (const fs::path& python : folders_in(prefix)) {
      if (!python.filename().native().starts_with("python3")) continue;
      add_python_folder(python / "site-packages", places);
      add_python_folder(python / "dist-packages", places);
    }
  }
  std::vector<fs::path> once;
  for (fs::path& place : places) {
    if (std::ranges::find(once, place) == once.end()) once.push_back(std::move(place));
  }
  return once;
}

std::vector<std::string> environment_of_this_process() {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
  return all;
}

}  // namespace

Result<fs::path> find_disassembler(const RuntimeOptions& options) {
  std::string looked_in;
  for (const fs::path& folder : places_to_look_in(options)) {
    const fs::path program = folder / kName;
    std::error_code problem;
    if (fs::is_regular_file(program, problem) && ::access(program.c_str(), X_OK) == 0) return program;
    looked_in += "\n  " + folder.string();
  }
  return fail(
      ErrorCode::unsupported,
      fmt::format(
          "SASS needs {}, which is not here; looked in:{}\n  and Python's nvidia/*/bin\nInstall it with 'pip install "
          "nvidia-cuda-nvdisasm' or with a CUDA toolkit, or write the cubin with --binary FILE and take it to a machine that has it",
          kName, looked_in));
}

Result<std::string> disassemble(const fs::path& program, std::span<const std::byte> cubin) {
  const auto folder = host::TemporaryFolder::create();
  if (!folder) return fail(Error(folder.error()));
  constexpr std::string_view kFile = "kernel.cubin";
  if (auto written = folder->write(kFile, as_text(cubin)); !written) return fail(std::move(written.error()));
  auto outcome = host::run_child({.program = program,
                                  .arguments = {std::string(kName), "--print-code", std::string(kFile)},
                                  .environment = environment_of_this_process(),
                                  .folder = folder->path(),
                                  .time_limit_seconds = kTimeLimitSeconds,
                                  .output_limit = kLongestText});
  if (!outcome) return fail(std::move(outcome.error()));
  if (outcome->exit_code != 0) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("{} refuses the cubin (exit code {}): {}\nAn older one does not know newer targets; 'pip install nvidia-cuda-nvdisasm' "
                    "brings the newest",
                    program.string(), outcome->exit_code, outcome->output));
  }
  if (outcome->truncated)
    return fail(ErrorCode::unsupported, fmt::format("the SASS is longer than {}", support::format_bytes(kLongestText)));
  return std::move(outcome->output);
}

}  // namespace kernwright::tool
