#include "support/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace kernwright::support {
namespace {

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;

/// 0 where it is no unit.
std::int64_t seconds_of(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "m") return kMinute;
  if (unit == "h") return kHour;
  return unit == "d" ? kDay : 0;
}

}  // namespace

std::string format_age(std::int64_t seconds) {
  if (seconds < kMinute) return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
  if (seconds < kHour) return fmt::format("{} min", seconds / kMinute);
  // Two days are still read as hours: "last used 30 h ago" says more than "1 d".
  return seconds < 2 * kDay ? fmt::format("{} h", seconds / kHour) : fmt::format("{} d", seconds / kDay);
}

Result<std::int64_t> parse_duration(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::int64_t unit = seconds_of(text.substr(static_cast<std::size_t>(end - text.data())));
  if (problem != std::errc{} || unit == 0 || value < 0 || value > std::numeric_limits<std::int64_t>::max() / unit) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is no span of time; legal is a whole number with d (days), h (hours), m (minutes) or s behind it, e.g. 30d",
                    text.substr(0, 64)));
  }
  return value * unit;
}

}  // namespace kernwright::support
