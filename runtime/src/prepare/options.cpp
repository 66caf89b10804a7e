#include "prepare/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "backend/host/host_defaults.hpp"
#include "core/byte_size.hpp"
#include "recording/record_settings.hpp"

namespace kernwright {
namespace {

constexpr Bytes kDefaultStoreLimit = mebibytes(1024);

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

/// 0 or 1.
Result<std::optional<bool>> environment_switch(const char* variable) {
  const auto text = environment(variable);
  if (!text) return std::optional<bool>{};
  if (*text == "0" || *text == "1") return std::optional<bool>{*text == "1"};
  return fail(ErrorCode::invalid_argument, fmt::format("{}={}: not 0 or 1", variable, *text));
}

std::vector<std::filesystem::path> folders_of(std::string_view list) {
  std::vector<std::filesystem::path> folders;
  while (!list.empty()) {
    const std::string_view folder = list.substr(0, list.find(':'));
    if (!folder.empty()) folders.emplace_back(folder);
    list.remove_prefix(std::min(list.size(), folder.size() + 1));
  }
  return folders;
}

Result<> resolve_stores(RuntimeOptions& options) {
  if (!options.read_only_stores) options.read_only_stores = folders_of(environment("KERNWRIGHT_CACHE_STORES").value_or(""));
  struct Switch {
    std::optional<bool>& option;
    const char* variable;
  };
  for (const Switch& each : {Switch{options.store_shared, "KERNWRIGHT_CACHE_SHARED"}, Switch{options.sealed, "KERNWRIGHT_SEALED"}}) {
    if (each.option) continue;
    auto value = environment_switch(each.variable);
    if (!value) return fail(std::move(value.error()));
    each.option = value->value_or(false);
  }
  if (!options.store_limit) {
    const auto text = environment("KERNWRIGHT_CACHE_LIMIT");
    auto limit = text ? parse_byte_size(*text) : Result<Bytes>(kDefaultStoreLimit);
    if (!limit) return fail(ErrorCode::invalid_argument, fmt::format("KERNWRIGHT_CACHE_LIMIT={}: {}", *text, limit.error().message));
    options.store_limit = *limit;
  }
  if (!options.compiler) options.compiler = environment("KERNWRIGHT_COMPILER");
  if (!options.remote.url) options.remote.url = environment("KERNWRIGHT_REMOTE");
  if (!options.remote.name_space) options.remote.name_space = environment("KERNWRIGHT_REMOTE_NAMESPACE");
  fill_path(options.remote.key_file, "KERNWRIGHT_REMOTE_KEY_FILE");
  return check_time_limit("lock_wait_limit_seconds", options.lock_wait_limit_seconds);
}

Result<> check_compiles_at_once(const RuntimeOptions& options) {
  constexpr int kMost = 1024;
  if (options.compiles_at_once < 0 || options.compiles_at_once > kMost) {
    return fail(ErrorCode::invalid_argument, fmt::format("compiles_at_once is {}; legal are 0 (as many as cores and memory allow) to {}",
                                                         options.compiles_at_once, kMost));
  }
  return {};
}

}  // namespace

Result<RuntimeOptions> resolve_options(RuntimeOptions options) {
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
  if (options.record) {
    if (auto record = check_record(*options.record); !record) return fail(std::move(record.error()).within("the option record"));
  }
  if (auto stores = resolve_stores(options); !stores) return fail(std::move(stores.error()));
  if (auto compiles = check_compiles_at_once(options); !compiles) return fail(std::move(compiles.error()));
  if (auto host = resolve_host(options.host); !host) return fail(std::move(host.error()));
  return options;
}

}  // namespace kernwright
