#include "prepare/options.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "backend/host/host_defaults.hpp"

namespace kernwright {
namespace {

/// An empty variable counts as unset.
std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

void fill_path(std::optional<std::filesystem::path>& option, const char* variable) {
  if (option) return;
  if (auto value = environment(variable)) option = *value;
}

Result<std::optional<std::uint64_t>> environment_number(const char* variable) {
  const auto text = environment(variable);
  if (!text) return std::optional<std::uint64_t>{};
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (problem != std::errc{} || end != text->data() + text->size()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}={}: not a whole number from 0 to 2^64 - 1", variable, *text));
  }
  return std::optional<std::uint64_t>{value};
}

/// One of an enumeration's written forms.
template <class Enum, std::size_t N>
Result<std::optional<Enum>> environment_choice(const char* variable, const std::array<Enum, N>& choices) {
  const auto text = environment(variable);
  if (!text) return std::optional<Enum>{};
  std::string legal;
  for (const Enum choice : choices) {
    if (*text == to_string(choice)) return std::optional<Enum>{choice};
    legal += fmt::format("{}{}", legal.empty() ? "" : ", ", to_string(choice));
  }
  return fail(ErrorCode::invalid_argument, fmt::format("{}={}: not one of {}", variable, *text, legal));
}

Result<> check_time_limit(std::string_view option, double seconds) {
  constexpr double kLongest = 86'400;
  if (seconds > 0 && seconds <= kLongest) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is {}; legal is above 0 and up to {}", option, seconds, kLongest));
}

Result<> resolve_host(HostOptions& options) {
  constexpr std::array kModes{HostMode::fibers, HostMode::fibers_asan, HostMode::threads};
  if (!options.mode) {
    auto mode = environment_choice("KERNWRIGHT_HOST_MODE", kModes);
    if (!mode) return fail(std::move(mode.error()));
    options.mode = mode->value_or(host::kDefaultMode);
  }
  if (!options.shared_memory) {
    auto bytes = environment_number("KERNWRIGHT_HOST_SHARED_BYTES");
    if (!bytes) return fail(std::move(bytes.error()));
    options.shared_memory = *bytes ? Bytes{**bytes} : host::kDefaultSharedMemory;
  }
  if (!options.seed) {
    auto seed = environment_number("KERNWRIGHT_HOST_SEED");
    if (!seed) return fail(std::move(seed.error()));
    options.seed = seed->value_or(host::kDefaultSeed);
  }
  if (options.workers < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("host.workers is {}; legal are 0 (one a core) and more", options.workers));
  return check_time_limit("host.compile_time_limit_seconds", options.compile_time_limit_seconds);
}

}  // namespace

Result<RuntimeOptions> resolve_options(RuntimeOptions options) {
  fill_path(options.tuning_folder, "KERNWRIGHT_TUNING_DIR");
  fill_path(options.cuda_driver, "KERNWRIGHT_CUDA_DRIVER");
  fill_path(options.nvrtc, "KERNWRIGHT_NVRTC");
  if (auto limit = check_time_limit("compile_time_limit_seconds", options.compile_time_limit_seconds); !limit) {
    return fail(std::move(limit.error()));
  }
  if (!options.log_level) {
    constexpr std::array kLevels{LogLevel::error, LogLevel::warn, LogLevel::info, LogLevel::debug};
    auto level = environment_choice("KERNWRIGHT_LOG", kLevels);
    if (!level) return fail(std::move(level.error()));
    options.log_level = level->value_or(LogLevel::warn);
  }
  if (auto host = resolve_host(options.host); !host) return fail(std::move(host.error()));
  return options;
}

}  // namespace kernwright
