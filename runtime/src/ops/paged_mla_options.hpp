// The options of paged MLA decode: what is legal, and the constants that they become.
#pragma once

#include "kernwright/paged_mla_decode.hpp"

namespace kernwright {

inline constexpr const char* kDecodeTemplate = "paged_mla/decode";
inline constexpr const char* kCombineTemplate = "paged_mla/combine";
inline constexpr const char* kDecodeReader = "kernwright/paged_mla_decode";  ///< As it is declared in PoolReaders.

Result<> check_options(const PagedMlaDecodeOptions& options);

/// The parameters of paged_mla/decode.
Specialisation decode_specialisation(const PagedMlaDecodeOptions& options);

}  // namespace kernwright
