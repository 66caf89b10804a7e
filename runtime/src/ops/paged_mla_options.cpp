#include "ops/paged_mla_options.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>
#include <string_view>

#include "ops/sparse_mla_options.hpp"

namespace kernwright {
namespace {

constexpr int kLargestQueryTokens = 8;
constexpr int kLargestPage = 128;
constexpr int kLargestShares = 65'536;

tl::unexpected<Error> refuse(std::string_view option, int came, std::string_view legal) {
  return fail(ErrorCode::invalid_argument, fmt::format("option {} is {}; legal is {}", option, came, legal));
}

}  // namespace

Result<> check_options(const PagedMlaDecodeOptions& options) {
  if (options.heads < kSmallestHeads || options.heads > kLargestHeads) {
    return refuse("heads", options.heads, fmt::format("{} to {}", kSmallestHeads, kLargestHeads));
  }
  if (options.query_tokens < 1 || options.query_tokens > kLargestQueryTokens) {
    return refuse("query_tokens", options.query_tokens, fmt::format("1 to {}; more are a prefill", kLargestQueryTokens));
  }
  if (options.page_size < 1 || options.page_size > kLargestPage || !std::has_single_bit(static_cast<unsigned>(options.page_size))) {
    return refuse("page_size", options.page_size, fmt::format("a power of two from 1 to {} tokens", kLargestPage));
  }
  if (options.d_qk != 576 && options.d_qk != 512) return refuse("d_qk", options.d_qk, "576 (512 latent + 64 rope) or 512");
  if (options.d_v != kValueColumns) return refuse("d_v", options.d_v, "512");
  if (options.dtype != DType::bf16) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("option dtype is {}; legal is bf16: no variant reads another; packed rows would be misread", to_string(options.dtype)));
  }
  if (options.shares && (*options.shares < 1 || *options.shares > kLargestShares)) {
    return refuse("shares", *options.shares, fmt::format("1 to {}, or empty for the device's own number", kLargestShares));
  }
  return options.readers.check(kDecodeReader, options.pool);
}

Specialisation decode_specialisation(const PagedMlaDecodeOptions& options) {
  Specialisation specialisation;
  specialisation.set("heads", options.heads).set("query_tokens", options.query_tokens).set("page_size", options.page_size);
  return specialisation.set("d_qk", options.d_qk).set("dtype", options.dtype);
}

}  // namespace kernwright
