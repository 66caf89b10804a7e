// What the paged MLA decode op refuses, with what is legal.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "fixtures/shared_store.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "ops/paged_mla_arguments.hpp"
#include "ops/paged_mla_options.hpp"

using namespace kernwright;

namespace {

PagedMlaDecodeOptions legal_options() {
  PagedMlaDecodeOptions options;
  options.device = DeviceId::host();
  options.heads = 8;
  options.page_size = 64;
  return options;
}

/// Three requests over a view of 640 rows. The memory is never looked at.
struct LegalCall {
  alignas(256) std::byte memory[256]{};
  PagedMlaDecodeArguments arguments;
  LegalCall() {
    arguments.q = TensorView::contiguous(memory, DType::bf16, {3, 1, 8, 576});
    arguments.kv = TensorView::contiguous(memory, DType::bf16, {640, 576});
    arguments.block_table = TensorView::contiguous(memory, DType::i32, {3, 5});
    arguments.seq_lens = TensorView::contiguous(memory, DType::i32, {3});
    arguments.sm_scale = 0.1F;
    arguments.out = TensorView::contiguous(memory, DType::bf16, {3, 1, 8, 512});
    arguments.lse = TensorView::contiguous(memory, DType::f32, {3, 1, 8});
    arguments.workspace = memory;
  }
};

}  // namespace

TEST_CASE("paged MLA decode options: each wrong one is refused when the op is made, with what is legal") {
  const auto refused = [](auto change, const std::string& option, const std::string& legal) {
    CAPTURE(option);
    PagedMlaDecodeOptions options = legal_options();
    change(options);
    const auto op = PagedMlaDecode::create(tests::shared_store_runtime(), options);
    REQUIRE_FALSE(op);
    CHECK(op.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(op.error().message.find("option " + option) == 0, op.error().message);
    CHECK_MESSAGE(op.error().message.find(legal) != std::string::npos, op.error().message);
  };
  refused([](auto& o) { o.heads = 0; }, "heads", "1 to 128");
  refused([](auto& o) { o.heads = 129; }, "heads", "1 to 128");
  refused([](auto& o) { o.query_tokens = 0; }, "query_tokens", "1 to 8");
  refused([](auto& o) { o.query_tokens = 9; }, "query_tokens", "1 to 8");
  refused([](auto& o) { o.page_size = 0; }, "page_size", "power of two");
  refused([](auto& o) { o.page_size = 48; }, "page_size", "power of two");
  refused([](auto& o) { o.page_size = 256; }, "page_size", "1 to 128");
  refused([](auto& o) { o.d_qk = 640; }, "d_qk", "576");
  refused([](auto& o) { o.d_v = 576; }, "d_v", "512");
  refused([](auto& o) { o.dtype = DType::u8; }, "dtype", "bf16");
  refused([](auto& o) { o.shares = 0; }, "shares", "1 to 65536");
  refused([](auto& o) { o.shares = 65'537; }, "shares", "1 to 65536");
}

TEST_CASE("paged MLA decode options: a pool that it has not declared is refused with those that have") {
  PagedMlaDecodeOptions options = legal_options();
  options.pool = PoolKind::unified_mla;
  CHECK(check_options(options));
  options.pool = PoolKind::unified_without_mla;
  const auto op = PagedMlaDecode::create(tests::shared_store_runtime(), options);
  REQUIRE_FALSE(op);
  CHECK(op.error().code == ErrorCode::unsupported);
  CHECK_MESSAGE(op.error().message.find("'kernwright/paged_mla_decode'") != std::string::npos, op.error().message);
  CHECK_MESSAGE(op.error().message.find("accepted are: triton") != std::string::npos, op.error().message);
  options.readers = PoolReaders();
  options.pool = PoolKind::unified_mla;
  CHECK_FALSE(check_options(options));
  options.pool = PoolKind::static_pool;
  CHECK(check_options(options));
}

TEST_CASE("paged MLA decode arguments: each wrong one is named with what is legal") {
  const auto refused = [](auto change, const std::string& argument, const std::string& legal) {
    CAPTURE(argument);
    LegalCall call;
    change(call.arguments);
    const auto checked = check_arguments(call.arguments, legal_options());
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(checked.error().message.find("argument " + argument) == 0, checked.error().message);
    CHECK_MESSAGE(checked.error().message.find(legal) != std::string::npos, checked.error().message);
  };
  const auto legal = check_arguments(LegalCall().arguments, legal_options());
  REQUIRE(legal);
  CHECK(legal->batch == 3);
  CHECK(legal->largest_length == 320);

  refused([](auto& a) { a.q.rank = 3; }, "q", "4, shape [any, 1, 8, 576]");
  refused([](auto& a) { a.q.shape[1] = 2; }, "q", "[any, 1, 8, 576]");
  refused([](auto& a) { a.q.stride[2] = 580; }, "q", "multiples of 8");
  refused([](auto& a) { a.q.dtype = DType::f16; }, "q", "bf16");
  refused([](auto& a) { a.kv.shape[1] = 512; }, "kv", "[any, 576]");
  refused([](auto& a) { a.kv.data = static_cast<std::byte*>(a.kv.data) + 8; }, "kv", "multiple of 16");
  refused([](auto& a) { a.block_table.shape[0] = 2; }, "block_table", "[3, any]");
  refused([](auto& a) { a.block_table.dtype = DType::i64; }, "block_table", "i32");
  refused([](auto& a) { a.seq_lens.dtype = DType::f32; }, "seq_lens", "i32");
  refused([](auto& a) { a.seq_lens.shape[0] = 4; }, "seq_lens", "[3]");
  refused([](auto& a) { a.seq_lens = TensorView::contiguous(static_cast<std::byte*>(a.seq_lens.data) + 4, DType::i64, {3}); }, "seq_lens",
          "multiple of 8");
  refused([](auto& a) { a.out.shape[3] = 576; }, "out", "[3, 1, 8, 512]");
  refused([](auto& a) { a.lse.shape[2] = 4; }, "lse", "[3, 1, 8]");
  refused([](auto& a) { a.sm_scale = std::nanf(""); }, "sm_scale", "finite");
  refused([](auto& a) { a.workspace = static_cast<std::byte*>(a.workspace) + 16; }, "workspace", "multiple of 256");
  // Counts that would not fit 32 bits in a kernel.
  refused([](auto& a) { a.block_table.shape[1] = std::int64_t{1} << 25; }, "block_table", "at most 33554430, 2^31 - 128 tokens");
  refused([](auto& a) { a.block_table.shape[1] = 33554431; }, "block_table", "at most 33554430");
  refused(
      [](auto& a) {
        const std::int64_t batch = 1 << 20;
        a.q.shape[0] = a.block_table.shape[0] = a.seq_lens.shape[0] = a.out.shape[0] = a.lse.shape[0] = batch;
        a.block_table.shape[1] = 1 << 12;
        a.block_table.stride[0] = 1 << 12;
      },
      "q", "requests came");
}

TEST_CASE("paged MLA decode: the workspace is asked for whole, and none where nothing is split") {
  PagedMlaDecodeOptions options = legal_options();
  options.shares = 3;
  auto op = PagedMlaDecode::create(tests::shared_store_runtime(), options);
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  // Two partial results of each share, each of at most 64 rows of 512 outputs and an lse.
  CHECK(op->workspace_bytes().count == 3 * 2 * 64 * (512 + 1) * 4);
  CHECK(op->launch_shapes(3).size() == 2);
  CHECK(op->launch_shapes(3)[0].grid == Grid{3, 1, 1});
  // A block of 128 threads a row where there are rows enough for 256 of them, else a power of two of blocks, up to 32.
  CHECK(op->launch_shapes(3)[1].grid == Grid{24 * 8, 1, 1});
  CHECK(op->launch_shapes(1)[1].grid == Grid{8 * 32, 1, 1});
  CHECK(op->launch_shapes(17)[1].grid == Grid{17 * 8, 1, 1});
  LegalCall call;
  call.arguments.workspace_size = Bytes{op->workspace_bytes().count - 1};
  const auto refused = op->run(call.arguments, {});
  REQUIRE_FALSE(refused);
  CHECK_MESSAGE(refused.error().message.find(std::to_string(op->workspace_bytes().count)) != std::string::npos, refused.error().message);
  call.arguments.workspace_size = op->workspace_bytes();
  call.arguments.workspace = nullptr;
  CHECK_FALSE(op->run(call.arguments, {}));

  options.shares = 1;
  op = PagedMlaDecode::create(tests::shared_store_runtime(), options);
  REQUIRE(op);
  CHECK(op->workspace_bytes().count == 0);
  CHECK(op->launch_shapes(3).size() == 1);
  CHECK(op->kernels().size() == 1);
}
