#include "ops/sparse_mla_arguments.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ops/sparse_mla_options.hpp"
#include "ops/sparse_mla_workspace.hpp"
#include "ops/tensor_check.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kVectorElements = 8;  // 16-byte loads and stores of bf16
constexpr std::uintptr_t kVectorBytes = 16;
constexpr std::uintptr_t kWordBytes = 4;

/// Extent d of a tensor whose rank is not checked yet.
std::int64_t extent(const TensorView& view, int d) {
  return view.rank > d ? view.shape[static_cast<std::size_t>(d)] : -1;
}

}  // namespace

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

  const auto vectors = [](std::string_view name, std::span<const std::int64_t> legal) {
    return TensorRule{name, DType::bf16, legal, false, kVectorElements, kVectorBytes};
  };
  const auto words = [](std::string_view name, DType dtype, std::span<const std::int64_t> legal) {
    return TensorRule{name, dtype, legal, true, 1, kWordBytes};
  };
  if (auto r = check_tensor(arguments.q, vectors("q", q_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.kv, vectors("kv", kv_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.indices, words("indices", DType::i32, index_shape)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(arguments.out, vectors("out", out_shape)); !r) return fail(std::move(r.error()));
  if (arguments.topk_length.present()) {
    if (auto r = check_tensor(arguments.topk_length, words("topk_length", DType::i32, token_shape)); !r) return fail(std::move(r.error()));
  }
  if (arguments.attn_sink.present()) {
    if (auto r = check_tensor(arguments.attn_sink, words("attn_sink", DType::f32, head_shape)); !r) return fail(std::move(r.error()));
  }
  if (arguments.max_logits.present()) {
    if (auto r = check_tensor(arguments.max_logits, words("max_logits", DType::f32, row_shape)); !r) return fail(std::move(r.error()));
  }
  if (arguments.lse.present()) {
    if (auto r = check_tensor(arguments.lse, words("lse", DType::f32, row_shape)); !r) return fail(std::move(r.error()));
  }
  if (shape.topk < 1 || shape.topk > options.max_topk) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("argument indices: K is {}; legal is 1 to {}, the max_topk that the op was made with", shape.topk, options.max_topk));
  }
  if (!std::isfinite(arguments.sm_scale)) {
    return fail(ErrorCode::invalid_argument, fmt::format("argument sm_scale: the value is {}; legal is a finite one", arguments.sm_scale));
  }
  if (reinterpret_cast<std::uintptr_t>(arguments.workspace) % kWorkspaceAlignment != 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("argument workspace: the pointer is {}; legal is a multiple of {} bytes",
                                                         arguments.workspace, kWorkspaceAlignment));
  }
  return shape;
}

}  // namespace kernwright
