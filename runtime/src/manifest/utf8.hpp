// UTF-8, as far as writing TOML needs it.
#pragma once

#include <cstddef>
#include <string_view>

namespace kernwright {

/// Bytes of the well-formed UTF-8 sequence that `text` begins with (RFC 3629: no overlong form, no surrogate, at most U+10FFFF), or 0.
std::size_t utf8_sequence_length(std::string_view text) noexcept;

}  // namespace kernwright
