#include "ops/paged_mla_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ops/sparse_mla_options.hpp"
#include "ops/tensor_check.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kLargestInt = std::numeric_limits<std::int32_t>::max();
/// Kernels round a request's tokens up to whole tiles, of 64 keys at most, in 32 bits.
constexpr std::int64_t kMostTokens = kLargestInt - 127;
constexpr std::int64_t kSmallestTileKeys = 16;  // block_n of the manifest's tiles is no smaller

}  // namespace

Result<DecodeShape> check_arguments(const PagedMlaDecodeArguments& arguments, const PagedMlaDecodeOptions& options) {
  const std::int64_t batch = extent(arguments.q, 0);
  const std::int64_t heads = options.heads, query_tokens = options.query_tokens;
  const std::array<std::int64_t, 4> q_shape{-1, query_tokens, heads, options.d_qk};
  const std::array<std::int64_t, 2> kv_shape{-1, options.d_qk};
  const std::array<std::int64_t, 2> table_shape{batch, -1};
  const std::array<std::int64_t, 1> lane_shape{batch};
  const std::array<std::int64_t, 4> out_shape{batch, query_tokens, heads, kValueColumns};
  const std::array<std::int64_t, 3> row_shape{batch, query_tokens, heads};

  TensorRule table = word_rule("block_table", DType::i32, table_shape);
  table.dense = false;
  const bool wide = arguments.seq_lens.dtype == DType::i64;
  TensorRule lengths = word_rule("seq_lens", wide ? DType::i64 : DType::i32, lane_shape);
  if (wide) lengths.alignment *= 2;
  if (auto r = check_tensor(arguments.q, vector_rule("q", q_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.kv, vector_rule("kv", kv_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.block_table, table); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.seq_lens, lengths); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.out, vector_rule("out", out_shape)); !r) return fail(std::move(r.error()));
  if (arguments.lse.present()) {
    if (auto r = check_tensor(arguments.lse, word_rule("lse", DType::f32, row_shape)); !r) return fail(std::move(r.error()));
  }
  if (auto r = check_finite("sm_scale", arguments.sm_scale); !r) return fail(std::move(r.error()));
  if (auto r = check_workspace_alignment(arguments.workspace); !r) return fail(std::move(r.error()));
  // What one call's kernels count in 32 bits: tokens of a request, tiles of a batch, blocks of a merge.
  const std::int64_t width = std::max<std::int64_t>(extent(arguments.block_table, 1), 0);
  if (width > kMostTokens / options.page_size) {
    return fail(ErrorCode::invalid_argument, fmt::format("argument block_table: the width is {}; legal is at most {}, 2^31 - 128 tokens",
                                                         width, kMostTokens / options.page_size));
  }
  const std::int64_t tiles = width * options.page_size / kSmallestTileKeys + 1;
  const std::int64_t largest_batch = std::min(kLargestInt / tiles, kLargestInt / (query_tokens * heads));
  if (batch > largest_batch) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("argument q: {} requests came; legal are at most {} at once with a block table of width {}", batch,
                            largest_batch, width));
  }
  return DecodeShape{batch, width * options.page_size};
}

}  // namespace kernwright
