// Element types of tensors and of `dtype` template parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kernwright {

/// The numeric values are written into generated sources and store entries: append, never renumber.
enum class DType : std::int32_t { bf16 = 1, f16 = 2, f32 = 3, i32 = 4, i64 = 5, u8 = 6 };

std::string_view to_string(DType dtype) noexcept;
std::optional<DType> dtype_from_string(std::string_view name) noexcept;
constexpr std::int64_t element_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
    case DType::f16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::i64: return 8;
    case DType::u8: return 1;
  }
  return 0;
}

}  // namespace kernwright
