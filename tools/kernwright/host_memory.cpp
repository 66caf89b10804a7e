#include "host_memory.hpp"

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <string>

namespace kernwright::tool {
namespace {

/// MemAvailable of /proc/meminfo (proc(5)); without it no bound is known.
double available_bytes() {
  std::ifstream stream("/proc/meminfo");
  std::string name;
  double kibibytes = 0;
  std::string unit;
  while (stream >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(stream, unit);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

Result<> require_host_memory(double bytes, std::string_view purpose) {
  const double available = available_bytes();
  if (bytes <= available) return {};
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  return fail(ErrorCode::out_of_memory,
              fmt::format("{} needs {:.1f} GiB of memory; {:.1f} GiB are available here: ask for a smaller problem", purpose,
                          bytes / kGibibyte, available / kGibibyte));
}

}  // namespace kernwright::tool
