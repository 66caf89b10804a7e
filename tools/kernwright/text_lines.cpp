#include "text_lines.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

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

std::string time_text(std::int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string device_text(const DeviceInfo& device) {
  if (device.id.backend == BackendKind::host) return "host (Kernwright's interpreter)";
  return fmt::format("{} {}, capability {}.{}", to_string(device.id), device.name, device.capability_major, device.capability_minor);
}

}  // namespace kernwright::tool
