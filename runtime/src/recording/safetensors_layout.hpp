// Where the tensors of a safetensors file lie: its header, made before any of their bytes are there.
// Format: https://github.com/huggingface/safetensors (README.md, "Format").
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/dtype.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

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

/// The longest header, in bytes.
inline constexpr std::uint64_t kSafetensorsHeaderLimit = 100'000'000;

struct SafetensorsShape {
  std::string name;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape = {};
};

struct SafetensorsLayout {
  std::string prefix;                  ///< What stands before the first tensor: the header's length in 8 bytes, and the header.
  std::vector<std::uint64_t> offsets;  ///< Of each tensor within the file.
  std::vector<std::uint64_t> sizes;
  std::uint64_t file_size = 0;
};

/// Dense tensors one behind the other, in the order given, from a multiple of 8 bytes on. invalid_argument names the tensor: a repeated
/// name, a shape that is not legal.
Result<SafetensorsLayout> safetensors_layout(std::span<const SafetensorsShape> tensors, const std::map<std::string, std::string>& metadata);

/// The name as a message shows it: quoted, with control characters escaped and long names cut.
std::string quoted_name(std::string_view name);

}  // namespace kernwright
