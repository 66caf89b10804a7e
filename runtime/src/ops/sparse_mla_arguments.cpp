#include "ops/sparse_mla_arguments.hpp"

#include <fmt/format.h>

#include <array>

#include "ops/sparse_mla_options.hpp"
#include "ops/sparse_mla_workspace.hpp"
#include "ops/tensor_check.hpp"

namespace kernwright {
Result<CallShape> check_arguments(const SparseMlaPrefillArguments& arguments, const SparseMlaPrefillOptions& options) {
  const CallShape shape{extent(arguments.q, 0), extent(arguments.kv, 0), extent(arguments.indices, 1)};
  const std::int64_t heads = options.heads;
  const std::array<std::int64_t, 3> q_shape{-1, heads, options.d_qk};
  const std::array<std::int64_t, 2> kv_shape{-1, options.d_qk};
  const std::array<std::int64_t, 2> index_shape{shape.tokens, -1};
  const std::array<std::int64_t, 1> token_shape{shape.tokens};
  const std::array<std::int64_t, 1> head_shape{heads};
  const std::array<std::int64_t, 3> out_shape{shape.tokens, heads, kValueColumns};
  const std::array<std::int64_t, 2> row_shape{shape.tokens, heads};

  if (auto r = check_tensor(arguments.q, vector_rule("q", q_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.kv, vector_rule("kv", kv_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.indices, word_rule("indices", DType::i32, index_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.out, vector_rule("out", out_shape)); !r) return fail(std::move(r.error()));
  if (arguments.topk_length.present()) {
    if (auto r = check_tensor(arguments.topk_length, word_rule("topk_length", DType::i32, token_shape)); !r)
      return fail(std::move(r.error()));
  }
  if (arguments.attn_sink.present()) {
    if (auto r = check_tensor(arguments.attn_sink, word_rule("attn_sink", DType::f32, head_shape)); !r) return fail(std::move(r.error()));
  }
  if (arguments.max_logits.present()) {
    if (auto r = check_tensor(arguments.max_logits, word_rule("max_logits", DType::f32, row_shape)); !r) return fail(std::move(r.error()));
  }
  if (arguments.lse.present()) {
    if (auto r = check_tensor(arguments.lse, word_rule("lse", DType::f32, row_shape)); !r) return fail(std::move(r.error()));
  }
  if (shape.topk < 1 || shape.topk > options.max_topk) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("argument indices: K is {}; legal is 1 to {}, the max_topk that the op was made with", shape.topk, options.max_topk));
  }
  if (auto r = check_finite("sm_scale", arguments.sm_scale); !r) return fail(std::move(r.error()));
  if (auto r = check_workspace_alignment(arguments.workspace); !r) return fail(std::move(r.error()));
  return shape;
}

}  // namespace kernwright
