// Sizes as people write them.
#pragma once

#include <string_view>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"

namespace kernwright {

/// "1048576", "1024K", "512M", "2G" (powers of 1024). invalid_argument says what is legal.
Result<Bytes> parse_byte_size(std::string_view text);

}  // namespace kernwright
