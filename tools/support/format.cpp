#include "support/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kernwright::support {

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  // 1023.5 would round up to "1024".
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.count);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string digits = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return fmt::format("{} {}", digits, kUnits[unit]);
}

std::string format_milliseconds(double milliseconds) {
  const bool seconds = milliseconds >= 999.5;
  const double value = seconds ? milliseconds / 1000 : milliseconds;
  const int decimals = value < 0.9995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, seconds ? "s" : "ms");
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 3.6e8;  // a number that a long holds, whatever came
  const auto whole = static_cast<long>(std::lround(std::clamp(seconds, 0.0, kLongest)));
  if (whole < 100) return fmt::format("{} s", whole);
  const long minutes = (whole + 30) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace kernwright::support
