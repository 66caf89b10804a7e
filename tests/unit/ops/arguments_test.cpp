#include "ops/sparse_mla_arguments.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

using namespace kernwright;

namespace {

constexpr std::int64_t kTokens = 5, kHeads = 8, kRows = 30, kTopk = 7;

/// Never dereferenced: the checks look at addresses only.
void* address(std::uintptr_t value) {
  return reinterpret_cast<void*>(value);
}

SparseMlaPrefillOptions options() {
  SparseMlaPrefillOptions o;
  o.device = DeviceId::host();
  o.heads = static_cast<int>(kHeads);
  o.max_topk = 16;
  return o;
}

SparseMlaPrefillArguments legal() {
  SparseMlaPrefillArguments a;
  a.q = TensorView::contiguous(address(0x1000), DType::bf16, {kTokens, kHeads, 576});
  a.kv = TensorView::contiguous(address(0x2000), DType::bf16, {kRows, 576});
  a.indices = TensorView::contiguous(address(0x3000), DType::i32, {kTokens, kTopk});
  a.topk_length = TensorView::contiguous(address(0x4000), DType::i32, {kTokens});
  a.attn_sink = TensorView::contiguous(address(0x5000), DType::f32, {kHeads});
  a.out = TensorView::contiguous(address(0x6000), DType::bf16, {kTokens, kHeads, 512});
  a.max_logits = TensorView::contiguous(address(0x7000), DType::f32, {kTokens, kHeads});
  a.lse = TensorView::contiguous(address(0x8000), DType::f32, {kTokens, kHeads});
  a.sm_scale = 0.1F;
  return a;
}

}  // namespace

TEST_CASE("sparse MLA arguments: legal ones give the call's shape") {
  const auto shape = check_arguments(legal(), options());
  REQUIRE_MESSAGE(shape, (shape ? "" : shape.error().text()));
  CHECK(shape->tokens == kTokens);
  CHECK(shape->kv_rows == kRows);
  CHECK(shape->topk == kTopk);
}

TEST_CASE("sparse MLA arguments: strides, absent tensors and empty problems are legal") {
  SparseMlaPrefillArguments a = legal();
  a.q.stride = {kHeads * 600 + 64, 600, 1, 0};
  a.out.stride = {kHeads * 520, 520, 1, 0};
  a.kv.stride[0] = 640;
  a.topk_length = a.attn_sink = a.max_logits = a.lse = TensorView{};
  CHECK(check_arguments(a, options()));
  SparseMlaPrefillArguments empty;
  empty.q = TensorView::contiguous(nullptr, DType::bf16, {0, kHeads, 576});
  empty.kv = TensorView::contiguous(nullptr, DType::bf16, {0, 576});
  empty.indices = TensorView::contiguous(nullptr, DType::i32, {0, kTopk});
  empty.out = TensorView::contiguous(nullptr, DType::bf16, {0, kHeads, 512});
  CHECK(check_arguments(empty, options()));
}

TEST_CASE("sparse MLA arguments: each wrong one is named with what came and what is legal") {
  struct Wrong {
    const char* argument;
    const char* came;
    std::function<void(SparseMlaPrefillArguments&)> set;
  };
  const Wrong all[]{
      {"q", "rank is 2", [](auto& a) { a.q.rank = 2; }},
      {"q", "f32", [](auto& a) { a.q.dtype = DType::f32; }},
      {"q", "[5, 9, 576]", [](auto& a) { a.q.shape[1] = 9; }},
      {"q", "[5, 8, 512]", [](auto& a) { a.q.shape[2] = 512; }},
      {"q", "null", [](auto& a) { a.q.data = nullptr; }},
      {"q", "0x1008", [](auto& a) { a.q.data = address(0x1008); }},
      {"q", "multiples of 8", [](auto& a) { a.q.stride[1] = 580; }},
      {"q", "1 innermost", [](auto& a) { a.q.stride[2] = 2; }},
      {"kv", "u8", [](auto& a) { a.kv.dtype = DType::u8; }},
      {"kv", "[30, 656]", [](auto& a) { a.kv.shape[1] = 656; }},
      {"indices", "i64", [](auto& a) { a.indices.dtype = DType::i64; }},
      {"indices", "[6, 7]", [](auto& a) { a.indices.shape[0] = 6; }},
      {"indices", "row-major", [](auto& a) { a.indices.stride[0] = 8; }},
      {"indices", "K is 17",
       [](auto& a) {
         a.indices = TensorView::contiguous(address(0x3000), DType::i32, {kTokens, 17});
       }},
      {"indices", "K is 0",
       [](auto& a) {
         a.indices = TensorView::contiguous(address(0x3000), DType::i32, {kTokens, 0});
       }},
      {"topk_length", "[4]", [](auto& a) { a.topk_length.shape[0] = 4; }},
      {"attn_sink", "[7]", [](auto& a) { a.attn_sink.shape[0] = 7; }},
      {"attn_sink", "bf16", [](auto& a) { a.attn_sink.dtype = DType::bf16; }},
      {"out", "[5, 8, 576]", [](auto& a) { a.out.shape[2] = 576; }},
      {"out", "null", [](auto& a) { a.out.data = nullptr; }},
      {"lse", "[5, 9]", [](auto& a) { a.lse.shape[1] = 9; }},
      {"max_logits", "0x7002", [](auto& a) { a.max_logits.data = address(0x7002); }},
      {"sm_scale", "is inf", [](auto& a) { a.sm_scale = std::numeric_limits<float>::infinity(); }},
      {"workspace", "256", [](auto& a) { a.workspace = address(0x9010); }},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.argument);
    CAPTURE(wrong.came);
    SparseMlaPrefillArguments a = legal();
    wrong.set(a);
    const auto shape = check_arguments(a, options());
    REQUIRE_FALSE(shape);
    CHECK(shape.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(shape.error().message.find(std::string("argument ") + wrong.argument + ":") != std::string::npos, shape.error().message);
    CHECK_MESSAGE(shape.error().message.find(wrong.came) != std::string::npos, shape.error().message);
  }
}
