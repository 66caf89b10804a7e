#include "text_lines.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "support/format.hpp"

namespace kernwright::tool {

std::string line(std::string_view label, std::string_view text) {
  return fmt::format("{:<11}{}\n", label, text);
}

std::string more(std::string_view text) {
  return line("", text);
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string registers_text(const PrepareReport& kernel) {
  return kernel.target.is_host() ? std::string() : fmt::format(", {} registers", kernel.resources.registers);
}

std::string cache_text(const PrepareReport& kernel) {
  switch (kernel.cache) {
    case CacheSource::built: return fmt::format("compiled in {}", support::format_milliseconds(kernel.compile_ms));
    case CacheSource::store: return "hit in the store";
    case CacheSource::remote: return "fetched from the remote cache";
    case CacheSource::memory: return "hit in memory";
  }
  return {};
}

std::string time_text(std::int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string device_text(const DeviceInfo& device) {
  if (device.id.backend == BackendKind::host) return "host (Kernwright's interpreter)";
  return fmt::format("{} {}, capability {}.{}", to_string(device.id), device.name, device.capability_major, device.capability_minor);
}

}  // namespace kernwright::tool
