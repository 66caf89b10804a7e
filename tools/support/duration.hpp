// Spans of time as people read and write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright::support {

/// "42 s", "17 min", "3 h", "12 d": whole units, rounded down. A negative span (clocks that differ) is "0 s".
std::string format_age(std::int64_t seconds);

/// Seconds of "30d", "12h", "90m" or "45s". invalid_argument says what is legal.
Result<std::int64_t> parse_duration(std::string_view text);

}  // namespace kernwright::support
