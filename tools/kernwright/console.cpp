#include "console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace kernwright::tool {
namespace {

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// What tools/demo and tools/test fetch where there is no CUDA toolkit: build/toolkit, beside the folder of the built program. Looked in
/// only where it exists, so that an installed program asks nobody's folders.
std::vector<std::filesystem::path> fetched_toolkit() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  auto folder = program.parent_path().parent_path() / "toolkit" / "nvidia" / "cu13" / "lib";
  if (!std::filesystem::is_directory(folder, error)) return {};
  return {std::move(folder)};
}

}  // namespace

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  // Ascending, so that open() gives exactly the number that is missing. stdout gets a descriptor that refuses writes: they stay errors.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    [[maybe_unused]] const int opened = ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

Result<> write_stdout(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return fail(ErrorCode::io, fmt::format("stdout could not be written to: {}", std::generic_category().message(errno)));
}

ExitCode finish(std::string_view document, ExitCode otherwise) {
  const Result<> written = write_stdout(document);
  return written ? otherwise : report_error(written.error());
}

ExitCode report_error(const Error& error) {
  write_stderr(fmt::format("kernwright: error: {}\n", error.text()));
  return exit_code(error);
}

ExitCode report_usage(std::string_view message) {
  write_stderr(fmt::format("kernwright: error: {}\n", message));
  return ExitCode::usage;
}

void note(const OutputOptions& output, std::string_view text) {
  if (!output.quiet) write_stderr(fmt::format("kernwright: note: {}\n", text));
}

RuntimeOptions runtime_options(const OutputOptions& output, const std::string& template_folder) {
  RuntimeOptions options;
  options.log = [](LogLevel level, std::string_view line) { write_stderr(fmt::format("kernwright: {}: {}\n", to_string(level), line)); };
  if (output.quiet) options.log_level = LogLevel::error;
  options.nvrtc_search_folders = fetched_toolkit();
  if (!template_folder.empty()) options.template_folder = template_folder;
  return options;
}

}  // namespace kernwright::tool
