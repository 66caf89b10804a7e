// Paged MLA decode with faults planted, and beside compaction.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cases/paged_mla_case.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "paged_mla/combine_params.cuh"
#include "paged_mla/decode_params.cuh"
#include "support/random.hpp"

namespace kernwright::cases {
namespace {

using kw::paged_mla::CombineParams;
using kw::paged_mla::DecodeParams;

constexpr std::int64_t kValueColumns = 512;

DecodeParams decode_params(const PagedMlaDecodeArguments& a, const PagedMlaCase& c) {
  DecodeParams params{};
  params.sequences = {a.seq_lens.data, c.batch(), static_cast<int>(a.block_table.shape[1] * c.page_size),
                      c.length_dtype == DType::i64 ? 1 : 0, 1};
  params.q = a.q.data;
  params.kv = a.kv.data;
  params.block_table = static_cast<const int*>(a.block_table.data);
  params.out = a.out.data;
  params.lse = static_cast<float*>(a.lse.data);
  params.q_stride_request = a.q.stride[0];
  params.q_stride_token = a.q.stride[1];
  params.q_stride_head = a.q.stride[2];
  params.kv_stride_row = a.kv.stride[0];
  params.table_stride = a.block_table.stride[0];
  params.out_stride_request = a.out.stride[0];
  params.out_stride_token = a.out.stride[1];
  params.out_stride_head = a.out.stride[2];
  params.kv_rows = a.kv.shape[0];
  params.sm_scale = a.sm_scale;
  return params;
}

CombineParams combine_params(const DecodeParams& decode, const PagedMlaCase& c, const Kernel& kernel, int shares, int slices) {
  CombineParams params{};
  params.sequences = decode.sequences;
  params.out = decode.out;
  params.lse = decode.lse;
  params.partials = decode.partials;
  params.out_stride_request = decode.out_stride_request;
  params.out_stride_token = decode.out_stride_token;
  params.out_stride_head = decode.out_stride_head;
  params.query_tokens = c.query_tokens;
  params.heads = c.heads;
  const int tile_rows = kernel.plan().rows_per_block;
  params.slot_rows = (c.heads * c.query_tokens + tile_rows - 1) / tile_rows * tile_rows;
  params.tile_keys = kernel.report().tile_fitted.block_n;
  params.shares = shares;
  params.slice_bits = std::countr_zero(static_cast<unsigned>(slices));
  return params;
}

/// One partial result's lse, of the first row that has one: the piece is dropped, or weighs e times what it should.
void spoil(DeviceBuffer& lse, std::int64_t rows, DecodeFault fault) {
  std::vector<float> values(static_cast<std::size_t>(rows));
  REQUIRE(lse.download(std::as_writable_bytes(std::span(values))));
  const auto found = std::ranges::find_if(values, [](float value) { return std::isfinite(value); });
  REQUIRE(found != values.end());
  *found = fault == DecodeFault::split_dropped ? -std::numeric_limits<float>::infinity() : *found + 1.0F;
  REQUIRE(lse.upload(std::as_bytes(std::span(values))));
}

}  // namespace

std::string_view to_string(DecodeFault fault) noexcept {
  switch (fault) {
    case DecodeFault::none: return "none";
    case DecodeFault::split_dropped: return "a split dropped";
    case DecodeFault::weight_wrong: return "a split's weight wrong";
    case DecodeFault::causal_off_by_one: return "causal off by one";
    case DecodeFault::tail_not_masked: return "the last page's tail not masked";
  }
  return "unknown";
}

support::SparseMlaCheck run_apart(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, int shares, DecodeFault fault,
                                  int slices) {
  PagedMlaDecodeOptions options = options_of(c, device);
  options.shares = std::max(shares, 2);
  auto op = PagedMlaDecode::create(runtime, options);
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  const std::vector<Kernel> kernels = op->kernels();
  const auto inputs = make_inputs(c);
  const auto rows = make_static_rows(runtime, device, c, *inputs);
  PagedMlaProblem problem(runtime, device, c, *inputs, *rows, {});
  auto stream = runtime.create_stream(device);
  REQUIRE(stream);
  if (fault == DecodeFault::causal_off_by_one || fault == DecodeFault::tail_not_masked) {
    std::vector<std::int64_t> lengths = c.lengths;
    for (std::int64_t& length : lengths) {
      length = fault == DecodeFault::causal_off_by_one ? length - 1 : (length + c.page_size - 1) / c.page_size * c.page_size;
    }
    problem.write_lengths(lengths);
  }

  const int tile_rows = kernels[0].plan().rows_per_block;
  const int row_tiles = (c.heads * c.query_tokens + tile_rows - 1) / tile_rows;
  const std::int64_t partial_rows = std::int64_t{2} * shares * row_tiles * tile_rows;
  const auto allocate = [&](std::int64_t bytes) {
    auto buffer = runtime.allocate(device, Bytes{static_cast<std::uint64_t>(bytes)});
    REQUIRE(buffer);
    REQUIRE(buffer->fill(std::byte{0xff}));
    return std::move(*buffer);
  };
  DeviceBuffer partial_out = allocate(partial_rows * kValueColumns * 4), partial_lse = allocate(partial_rows * 4);
  DecodeParams decode = decode_params(problem.arguments, c);
  decode.partials = {static_cast<float*>(partial_out.data()), static_cast<float*>(partial_lse.data())};
  const auto launched = kernels[0].launch(Grid{static_cast<std::uint32_t>(shares * row_tiles), 1, 1}, decode, stream->handle());
  REQUIRE_MESSAGE(launched, (launched ? "" : launched.error().text()));
  REQUIRE(stream->synchronize());
  if (fault == DecodeFault::split_dropped || fault == DecodeFault::weight_wrong) spoil(partial_lse, partial_rows, fault);
  const auto merged = kernels[1].launch(Grid{static_cast<std::uint32_t>(c.batch() * c.query_tokens * c.heads * slices), 1, 1},
                                        combine_params(decode, c, kernels[0], shares, slices), stream->handle());
  REQUIRE_MESSAGE(merged, (merged ? "" : merged.error().text()));
  REQUIRE(stream->synchronize());
  return check_of(*inputs, problem.download());
}

void decode_follows_compaction(const Runtime& runtime, DeviceId device, const PagedMlaCase& c) {
  CAPTURE(c.text());
  auto op = PagedMlaDecode::create(runtime, options_of(c, device));
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  const auto inputs = make_inputs(c);
  UnifiedRows rows(runtime, device, c, *inputs);
  PagedMlaProblem problem(runtime, device, c, *inputs, rows, op->workspace_bytes());
  auto stream = runtime.create_stream(device);
  REQUIRE(stream);
  const auto run = [&] {
    problem.poison();
    const auto ran = op->run(problem.arguments, stream->handle());
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().text()));
    REQUIRE(stream->synchronize());
    auto outputs = problem.download();
    judge(*inputs, outputs);
    return outputs;
  };
  const auto before = run();
  CHECK(rows.compact() > 0);
  const auto after = run();
  CHECK(before.out == after.out);
  // Not by their bytes: +inf is equal to itself, and there is no NaN in a right answer.
  CHECK(before.lse == after.lse);
}

void sparse_form_follows_compaction(const Runtime& runtime, DeviceId device, const PagedMlaCase& c) {
  CAPTURE(c.text());
  const auto inputs = make_inputs(c);
  UnifiedRows rows(runtime, device, c, *inputs);
  // About half of what each new token may see, in a random order, the same for the draft tokens of a request but for their own keys.
  const std::int64_t width = inputs->problem.topk, tokens = inputs->problem.tokens;
  std::vector<std::int64_t> virtual_ids(static_cast<std::size_t>(tokens * width), 0);
  support::SplitMix64 random(c.seed);
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    std::vector<std::int32_t> keys(static_cast<std::size_t>(std::max<std::int64_t>(c.lengths[static_cast<std::size_t>(b)], 0)));
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<std::int32_t>(k);
    for (std::size_t k = keys.size(); k > 1; --k) std::swap(keys[k - 1], keys[random.below(static_cast<std::uint32_t>(k))]);
    keys.resize((keys.size() + 1) / 2);
    for (std::int64_t i = 0; i < c.query_tokens; ++i) {
      const std::int64_t token = b * c.query_tokens + i;
      std::int32_t& count = inputs->visible[static_cast<std::size_t>(token)];
      const std::int32_t seen = count;
      count = 0;
      for (const std::int32_t key : keys) {
        if (key >= seen) continue;
        const std::int64_t at = token * width + count++;
        inputs->indices[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(inputs->first_row[static_cast<std::size_t>(b)] + key);
        virtual_ids[static_cast<std::size_t>(at)] = rows.virtual_id(b, key);
      }
    }
  }
  auto stream = runtime.create_stream(device);
  REQUIRE(stream);
  const DeviceIntegers lengths(runtime, device, DType::i32, {inputs->visible.begin(), inputs->visible.end()});
  DeviceIntegers indices(runtime, device, DType::i32, virtual_ids);
  PagedMlaProblem problem(runtime, device, c, *inputs, rows, {});
  for (const bool compacted : {false, true}) {
    if (compacted) CHECK(rows.compact() > 0);
    indices.write(virtual_ids);
    const auto translated = rows.pool().kernels().translate(indices.line(), indices.line(), {}, rows.pool().hooks().v2p, stream->handle());
    REQUIRE_MESSAGE(translated, (translated ? "" : translated.error().text()));
    for (const int group : {0, c.query_tokens}) {
      CAPTURE(group);
      CAPTURE(compacted);
      SparseMlaPrefillOptions options;
      options.device = device;
      options.heads = c.heads;
      options.max_topk = static_cast<int>(width);
      options.d_qk = c.d_qk;
      options.group_size = group;
      options.pool = rows.pool().kind();
      auto op = SparseMlaPrefill::create(runtime, options);
      REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
      const TensorView kv = rows.kv();
      const Bytes workspace = op->workspace_bytes(tokens, kv.shape[0]);
      auto buffer = runtime.allocate(device, Bytes{std::max<std::uint64_t>(workspace.count, 16)});
      REQUIRE(buffer);
      problem.poison();
      SparseMlaPrefillArguments arguments;
      const auto rows_of = [&](const TensorView& view) {
        return TensorView::contiguous(view.data, view.dtype, {tokens, c.heads, view.shape[3]});
      };
      arguments.q = rows_of(problem.arguments.q);
      arguments.kv = kv;
      arguments.indices = indices.table(tokens, width, width);
      arguments.topk_length = lengths.line();
      arguments.sm_scale = inputs->problem.sm_scale;
      arguments.out = rows_of(problem.arguments.out);
      arguments.lse = TensorView::contiguous(problem.arguments.lse.data, DType::f32, {tokens, c.heads});
      arguments.workspace = buffer->data();
      arguments.workspace_size = workspace;
      const auto ran = op->run(arguments, stream->handle());
      REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().text()));
      REQUIRE(stream->synchronize());
      judge(*inputs, problem.download());
    }
  }
}

}  // namespace kernwright::cases
