// What the reader and the writer of safetensors files share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernwright/dtype.hpp"

namespace kernwright::support {

struct SafetensorsDType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> dtype;
};

/// Every type of whole bytes that the format knows.
inline constexpr std::array<SafetensorsDType, 16> kSafetensorsDTypes{{
    {"BOOL", 1, std::nullopt},
    {"U8", 1, DType::u8},
    {"I8", 1, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
    {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},
    {"F16", 2, DType::f16},
    {"BF16", 2, DType::bf16},
    {"I32", 4, DType::i32},
    {"U32", 4, std::nullopt},
    {"F32", 4, DType::f32},
    {"I64", 8, DType::i64},
    {"U64", 8, std::nullopt},
    {"F64", 8, std::nullopt},
}};

/// The name as a message shows it: quoted, with control characters escaped and long names cut.
std::string quoted_name(std::string_view name);

}  // namespace kernwright::support
