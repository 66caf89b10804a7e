// What a file that is no bundle is instead, told from its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kernwright::support {

/// How many bytes are looked at; fewer may be given.
inline constexpr std::size_t kBytesThatTell = 512;

/// Empty where the bytes begin a zstd frame; otherwise what they begin: "a gzip file", "empty", …
std::string_view not_zstd(std::span<const std::byte> first_bytes) noexcept;

}  // namespace kernwright::support
