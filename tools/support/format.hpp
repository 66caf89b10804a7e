// Quantities as people read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernwright/units.hpp"

namespace kernwright::support {

/// "512 B", "1.5 KiB", "256 MiB": three digits, binary units.
std::string format_bytes(Bytes bytes);
/// "0.412 ms", "31.2 ms", "2.41 s": three digits.
std::string format_milliseconds(double milliseconds);
/// "45 s", "3 min", "1 h 20 min": for times that are estimates.
std::string format_duration(double seconds);
/// Splits at every `separator`; an empty text has no parts, an empty part stays.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace kernwright::support
