#include "ops/paged_kv_options.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace kernwright {
namespace {

constexpr int kLargestPage = 4096;
constexpr int kLargestMultiplier = 1024;
constexpr int kLargestWidth = 8192;
constexpr std::int64_t kLargestPages = std::int64_t{1} << 40;
constexpr std::int64_t kLargestIndex = std::numeric_limits<std::int32_t>::max();
constexpr int kVectorBytes = 16;

tl::unexpected<Error> refuse(std::string_view option, const std::string& came, std::string_view legal) {
  return fail(ErrorCode::invalid_argument, fmt::format("option {} is {}; legal is {}", option, came, legal));
}

bool is_integer(DType dtype) {
  return dtype == DType::i32 || dtype == DType::i64;
}

}  // namespace

Result<> check_options(const PagedKvOptions& options) {
  if (options.page_size < 1 || options.page_size > kLargestPage) {
    return refuse("page_size", std::to_string(options.page_size), fmt::format("1 to {} tokens", kLargestPage));
  }
  if (options.multiplier < 1 || options.multiplier > kLargestMultiplier) {
    return refuse("multiplier", std::to_string(options.multiplier), fmt::format("1 to {} layers", kLargestMultiplier));
  }
  if (!options.has_table && options.multiplier != 1) {
    return refuse("multiplier", std::to_string(options.multiplier), "1 where has_table is false: a static pool's ids are not multiplied");
  }
  if (options.pages < 1 || options.pages > kLargestPages) {
    return refuse("pages", std::to_string(options.pages), fmt::format("1 to {}, the pool's physical pages", kLargestPages));
  }
  for (const auto& [name, dtype] :
       {std::pair{"token_dtype", options.token_dtype}, {"request_dtype", options.request_dtype}, {"index_dtype", options.index_dtype}}) {
    if (!is_integer(dtype)) return refuse(name, std::string(to_string(dtype)), "i32 or i64");
  }
  if (options.pages * options.multiplier > kLargestIndex) {
    return refuse("pages", std::to_string(options.pages),
                  fmt::format("at most {} with {} layers: a block table holds 32-bit page ids", kLargestIndex / options.multiplier,
                              options.multiplier));
  }
  if (options.index_dtype == DType::i32 && options.pages * options.multiplier * options.page_size > kLargestIndex) {
    return refuse("index_dtype", "i32",
                  fmt::format("i64: {} pages of {} tokens and {} layers have dense ids of 2^31 and more", options.pages, options.page_size,
                              options.multiplier));
  }
  if (options.dtype != DType::bf16 && options.dtype != DType::f16 && options.dtype != DType::u8) {
    return refuse("dtype", std::string(to_string(options.dtype)), "bf16, f16 or u8");
  }
  const int granule = kVectorBytes / static_cast<int>(element_bytes(options.dtype));
  const auto width = [&](std::string_view name, int value, int smallest) -> Result<> {
    if (value >= smallest && value <= kLargestWidth && value % granule == 0) return {};
    return refuse(name, std::to_string(value),
                  fmt::format("a multiple of {} from {} to {}: {} bytes of {}", granule, smallest, kLargestWidth, kVectorBytes,
                              to_string(options.dtype)));
  };
  if (auto checked = width("latent_width", options.latent_width, granule); !checked) return checked;
  return width("rope_width", options.rope_width, 0);
}

Specialisation translation_specialisation(const PagedKvOptions& options) {
  Specialisation specialisation;
  specialisation.set("page_size", options.page_size).set("multiplier", options.multiplier).set("has_table", options.has_table ? 1 : 0);
  return specialisation;
}

std::vector<PagedKvKernel> kernels_of(const PagedKvOptions& options) {
  const auto with = [&](std::initializer_list<std::pair<const char*, DType>> dtypes) {
    Specialisation specialisation = translation_specialisation(options);
    for (const auto& [name, dtype] : dtypes) specialisation.set(name, dtype);
    return specialisation;
  };
  const auto rows = [&](int loc_is_dense) {
    Specialisation specialisation = translation_specialisation(options);
    specialisation.set("latent_width", options.latent_width).set("rope_width", options.rope_width).set("dtype", options.dtype);
    return specialisation.set("loc_is_dense", loc_is_dense);
  };
  const std::pair<const char*, DType> tokens{"token_dtype", options.token_dtype}, requests{"request_dtype", options.request_dtype},
      indices{"index_dtype", options.index_dtype};
  std::vector<PagedKvKernel> kernels{{"paged_kv/block_table", with({tokens, requests})},
                                     {"paged_kv/token_indices", with({tokens, requests, indices})},
                                     {"paged_kv/translate", with({indices})},
                                     {"paged_kv/write_locations", with({})},
                                     {"paged_kv/write_rows", rows(1)},
                                     {"paged_kv/move_pages", {}},
                                     {"paged_kv/zero_pages", {}}};
  if (options.has_table) kernels.push_back({"paged_kv/write_rows", rows(0)});
  return kernels;
}

}  // namespace kernwright
