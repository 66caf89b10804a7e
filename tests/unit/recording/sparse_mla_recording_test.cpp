// Calls of sparse MLA prefill, recorded by the op on the interpreter: what stands in the file is what the call was given and what it gave.
#include <doctest/doctest.h>

#include "fixtures/log_lines.hpp"
#include "fixtures/shared_store.hpp"
#include "fixtures/temporary_folder.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

template <class T>
std::vector<T> tensor(const support::SafetensorsFile& file, std::string_view name) {
  const auto* const entry = file.header().find(name);
  REQUIRE_MESSAGE((entry != nullptr) == true, std::string(name));
  const auto values = file.read<T>(*entry);
  REQUIRE(values);
  return *values;
}

}  // namespace

TEST_CASE("sparse MLA recording: strided q and out, lengths, sink and lse stand in the file as the call had them") {
  constexpr std::int64_t kTokens = 5, kHeads = 2, kRows = 7, kTopk = 4, kColumns = 576, kValues = 512;
  constexpr std::int64_t kTokenStride = 1400, kHeadStride = 640, kOutStride = 1040;
  const TemporaryFolder folder;
  LogLines log;
  RuntimeOptions options = shared_store_options();
  options.record = RecordOptions{"sparse_mla", 1, folder.path(), mebibytes(8)};
  options.log = log.callback();
  std::vector<support::Bf16> q = support::random_normal_bf16(kTokens * kTokenStride, 1, 1);
  std::vector<support::Bf16> kv = support::random_normal_bf16(kRows * kColumns, 1, 2);
  std::vector<support::Bf16> out(kTokens * kOutStride, 0xffff);
  std::vector<std::int32_t> indices{0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 0, 2, 4, 6};
  std::vector<std::int32_t> lengths{4, 3, 4, 0, 2};
  std::vector<float> sink{0.5F, -1.0F}, lse(kTokens * kHeads);
  {
    const auto runtime = Runtime::create(options);
    REQUIRE_MESSAGE(runtime, (runtime ? "" : runtime.error().text()));
    SparseMlaPrefillOptions op_options;
    op_options.device = DeviceId::host();
    op_options.heads = kHeads;
    op_options.max_topk = kTopk;
    op_options.group_size = 4;
    const auto op = SparseMlaPrefill::create(*runtime, op_options);
    REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
    auto workspace = runtime->allocate(DeviceId::host(), op->workspace_bytes(kTokens, kRows));
    REQUIRE(workspace);
    SparseMlaPrefillArguments arguments;
    arguments.q = {q.data(), DType::bf16, 3, {kTokens, kHeads, kColumns}, {kTokenStride, kHeadStride, 1}};
    arguments.kv = TensorView::contiguous(kv.data(), DType::bf16, {kRows, kColumns});
    arguments.indices = TensorView::contiguous(indices.data(), DType::i32, {kTokens, kTopk});
    arguments.topk_length = TensorView::contiguous(lengths.data(), DType::i32, {kTokens});
    arguments.attn_sink = TensorView::contiguous(sink.data(), DType::f32, {kHeads});
    arguments.sm_scale = 0.1F;
    arguments.out = {out.data(), DType::bf16, 3, {kTokens, kHeads, kValues}, {kOutStride, kValues, 1}};
    arguments.lse = TensorView::contiguous(lse.data(), DType::f32, {kTokens, kHeads});
    arguments.workspace = workspace->data();
    arguments.workspace_size = workspace->size();
    REQUIRE(op->run(arguments, StreamHandle{}));
    REQUIRE(op->run(arguments, StreamHandle{}));  // one call was asked for
  }
  CHECK_MESSAGE(log.count(LogLevel::warn) == 0, (log.lines().empty() ? "" : log.lines().front()));
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::directory_iterator(folder.path())) files.push_back(each.path());
  REQUIRE(files.size() == 1);
  const auto file = support::SafetensorsFile::open(files.front());
  REQUIRE(file);
  const auto recorded_q = tensor<support::Bf16>(*file, "q");
  const auto recorded_out = tensor<support::Bf16>(*file, "out");
  for (std::size_t t = 0; t < kTokens; ++t) {
    for (std::size_t h = 0; h < kHeads; ++h) {
      for (std::size_t i = 0; i < kColumns; ++i) {
        REQUIRE(recorded_q[(t * kHeads + h) * kColumns + i] == q[t * kTokenStride + h * kHeadStride + i]);
      }
      for (std::size_t i = 0; i < kValues; ++i)
        REQUIRE(recorded_out[(t * kHeads + h) * kValues + i] == out[t * kOutStride + h * kValues + i]);
    }
  }
  CHECK(tensor<support::Bf16>(*file, "kv") == kv);
  CHECK(tensor<std::int32_t>(*file, "indices") == indices);
  CHECK(tensor<std::int32_t>(*file, "topk_length") == lengths);
  CHECK(tensor<float>(*file, "attn_sink") == sink);
  CHECK(tensor<float>(*file, "lse") == lse);
  CHECK((file->header().find("max_logits") == nullptr) == true);
  const auto& metadata = file->header().metadata;
  CHECK(metadata.at("strides.q") == "1400,640,1");
  CHECK(metadata.at("strides.out") == "1040,512,1");
  CHECK_FALSE(metadata.contains("strides.kv"));
  CHECK(metadata.at("sm_scale") == "0.1");
  CHECK(metadata.at("union_used") == "4");
  CHECK(metadata.at("template") == "sparse_mla/prefill");
  CHECK(metadata.at("specialisation") == "heads=2 group_size=4 d_qk=576 dtype=bf16");
}
