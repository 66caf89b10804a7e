#include "cases/sparse_mla_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "support/index_walk.hpp"
#include "support/random.hpp"

namespace kernwright::cases {
namespace {

using support::Bf16;
using support::SplitMix64;

constexpr std::int64_t kValueColumns = 512;
constexpr std::int64_t kStrideGap = 24;  // elements; a multiple of 8
constexpr std::byte kPoison{0xff};
constexpr Bf16 kQuietNan = 0x7fff, kInfinity = 0x7f80, kMinusInfinity = 0xff80;

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

void punch_holes(const SparseMlaCase& c, std::vector<std::int32_t>& indices, SplitMix64& random) {
  const auto rows = static_cast<std::int32_t>(c.kv_rows);
  for (std::int32_t& position : indices) {
    switch (random.below(8)) {
      case 0: position = -1; break;
      case 1:
        if (random.below(4) == 0) position = random.below(2) == 0 ? rows : std::numeric_limits<std::int32_t>::max();
        break;
      case 2:
        if (random.below(4) == 0) position = std::numeric_limits<std::int32_t>::min() + 5;
        break;
      default: break;
    }
  }
  const std::int64_t empty = c.tokens / 2;
  std::fill_n(indices.begin() + empty * c.topk, c.topk, -1);
}

std::vector<std::int32_t> random_lengths(const SparseMlaCase& c, SplitMix64& random) {
  std::vector<std::int32_t> lengths(index(c.tokens));
  for (std::int32_t& length : lengths) {
    switch (random.below(8)) {
      case 0: length = 0; break;
      case 1: length = -7; break;
      case 2: length = static_cast<std::int32_t>(c.topk) + 9; break;
      default: length = 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(c.topk)));
    }
  }
  return lengths;
}

std::vector<float> mixed_sinks(std::int64_t heads, SplitMix64& random) {
  std::vector<float> sinks(index(heads));
  for (std::size_t h = 0; h < sinks.size(); ++h) {
    sinks[h] = static_cast<float>(random.below(1000)) / 200.0F - 1.0F;
    if (h % 5 == 3) sinks[h] = std::numeric_limits<float>::infinity();
    if (h % 7 == 5) sinks[h] = -std::numeric_limits<float>::infinity();
  }
  return sinks;
}

std::int64_t length_of(const SparseMlaInputs& inputs, std::int64_t token) {
  const std::int64_t topk = inputs.problem.topk;
  return inputs.topk_length.empty() ? topk : std::clamp<std::int64_t>(inputs.topk_length[index(token)], 0, topk);
}

/// Makes kv row `position` the query of (token, head 0): its logit is then the squared norm, about 24 deviations above the others.
void plant(SparseMlaInputs& inputs, std::int64_t token, std::int64_t slot) {
  const auto& p = inputs.problem;
  if (slot < 0 || slot >= length_of(inputs, token)) return;
  const std::int32_t position = inputs.indices[index(token * p.topk + slot)];
  if (position < 0 || position >= p.kv_rows) return;
  std::copy_n(inputs.q.begin() + token * p.heads * p.d_qk, p.d_qk, inputs.kv.begin() + position * p.d_qk);
}

void plant_edges(const SparseMlaCase& c, SparseMlaInputs& inputs) {
  const std::int64_t last = c.tokens - 1;
  plant(inputs, 0, 0);
  plant(inputs, last, c.topk - 1);
  for (const std::int64_t edge : {15, 16, 31, 32, 63, 64}) {
    plant(inputs, std::min(last, edge % 7 + 1), edge);
  }
  const std::int64_t group = std::max(1, c.group_size);
  plant(inputs, std::min(last, group - 1), c.topk / 2);
  plant(inputs, std::min(last, group), c.topk / 3);
}

void poison_unselected(SparseMlaInputs& inputs) {
  const auto& p = inputs.problem;
  std::vector<bool> selected(index(p.kv_rows), false);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    for (std::int64_t s = 0; s < length_of(inputs, t); ++s) {
      const std::int32_t position = inputs.indices[index(t * p.topk + s)];
      if (position >= 0 && position < p.kv_rows) selected[index(position)] = true;
    }
  }
  constexpr Bf16 kValues[]{kQuietNan, kInfinity, kMinusInfinity};
  for (std::int64_t row = 0; row < p.kv_rows; ++row) {
    if (!selected[index(row)]) std::fill_n(inputs.kv.begin() + row * p.d_qk, p.d_qk, kValues[row % 3]);
  }
}

/// Dense [rows, inner, width] into rows with gaps.
std::vector<Bf16> spread(const std::vector<Bf16>& dense, std::int64_t rows, std::int64_t inner, std::int64_t width, std::int64_t row_stride,
                         std::int64_t inner_stride) {
  std::vector<Bf16> wide(index(rows * row_stride), kQuietNan);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < inner; ++i) {
      std::copy_n(dense.begin() + (r * inner + i) * width, width, wide.begin() + r * row_stride + i * inner_stride);
    }
  }
  return wide;
}

template <class T>
Result<> put(const Runtime& runtime, DeviceId device, DeviceBuffer& buffer, const std::vector<T>& values) {
  auto made = runtime.allocate(device, Bytes{std::max<std::size_t>(values.size() * sizeof(T), 16)});
  if (!made) return fail(std::move(made.error()));
  buffer = std::move(*made);
  return buffer.upload(std::as_bytes(std::span(values)));
}

Result<> reserve(const Runtime& runtime, DeviceId device, DeviceBuffer& buffer, std::int64_t bytes) {
  auto made = runtime.allocate(device, Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 16))});
  if (!made) return fail(std::move(made.error()));
  buffer = std::move(*made);
  return {};
}

TensorView strided3(void* data, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t stride_a, std::int64_t stride_b) {
  TensorView view = TensorView::contiguous(data, DType::bf16, {a, b, c});
  view.stride[0] = stride_a;
  view.stride[1] = stride_b;
  return view;
}

}  // namespace

std::string SparseMlaCase::text() const {
  return fmt::format("H={} G={} T={} S={} K={} d_qk={} deviation={}{}{}{}{}{}{}{}{} seed={}", heads, group_size, tokens, kv_rows, topk,
                     d_qk, logit_deviation, sink ? " sink" : "", topk_length ? " topk_length" : "", statistics ? " statistics" : "",
                     holes ? " holes" : "", poison ? " poison" : "", planted ? " planted" : "", strided ? " strided" : "",
                     tile ? " tile=" + tile->text() : "", seed);
}

SparseMlaPrefillOptions options_of(const SparseMlaCase& c, DeviceId device) {
  SparseMlaPrefillOptions options;
  options.device = device;
  options.heads = c.heads;
  options.max_topk = static_cast<int>(c.topk);
  options.d_qk = c.d_qk;
  options.group_size = c.group_size;
  options.tile = c.tile;
  return options;
}

std::unique_ptr<SparseMlaInputs> make_inputs(const SparseMlaCase& c) {
  auto inputs = std::make_unique<SparseMlaInputs>();
  SplitMix64 random(c.seed * 977 + 5);
  inputs->q = support::random_normal_bf16(c.tokens * c.heads * c.d_qk, c.seed, 1);
  inputs->kv = support::random_normal_bf16(c.kv_rows * c.d_qk, c.seed, 2);
  support::WalkOptions walk;
  walk.tokens = c.tokens;
  walk.topk = c.topk;
  walk.kv_rows = c.kv_rows;
  walk.seed = c.seed;
  if (c.kv_rows > 0 && c.tokens > 0) {
    if (auto made = support::make_walk(walk); made) inputs->indices = std::move(made->indices);
  }
  inputs->indices.resize(index(c.tokens * c.topk), -1);
  if (c.holes && c.tokens > 0) punch_holes(c, inputs->indices, random);
  if (c.topk_length) inputs->topk_length = random_lengths(c, random);
  if (c.sink) inputs->sink = mixed_sinks(c.heads, random);

  support::SparseMlaProblem& p = inputs->problem;
  p.tokens = c.tokens;
  p.heads = c.heads;
  p.kv_rows = c.kv_rows;
  p.topk = c.topk;
  p.d_qk = c.d_qk;
  p.d_v = kValueColumns;
  p.sm_scale = c.logit_deviation / std::sqrt(static_cast<float>(c.d_qk));
  if (c.planted && c.tokens > 0) plant_edges(c, *inputs);
  if (c.poison) poison_unselected(*inputs);
  p.q = inputs->q;
  p.kv = inputs->kv;
  p.indices = inputs->indices;
  p.topk_length = inputs->topk_length;
  p.attn_sink = inputs->sink;
  return inputs;
}

Result<DeviceProblem> DeviceProblem::create(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, const SparseMlaInputs& inputs,
                                            Bytes workspace) {
  DeviceProblem d;
  const std::int64_t gap = c.strided ? kStrideGap : 0;
  const std::int64_t q_head = c.d_qk + gap, q_token = c.heads * q_head + gap, kv_row = c.d_qk + gap;
  d.tokens_ = c.tokens;
  d.heads_ = c.heads;
  d.statistics_ = c.statistics;
  d.out_head_stride_ = kValueColumns + gap;
  d.out_token_stride_ = c.heads * d.out_head_stride_ + gap;

  const auto q = spread(inputs.q, c.tokens, c.heads, c.d_qk, q_token, q_head);
  const auto kv = spread(inputs.kv, c.kv_rows, 1, c.d_qk, kv_row, c.d_qk);
  if (auto r = put(runtime, device, d.q_, q); !r) return fail(std::move(r.error()));
  if (auto r = put(runtime, device, d.kv_, kv); !r) return fail(std::move(r.error()));
  if (auto r = put(runtime, device, d.indices_, inputs.indices); !r) return fail(std::move(r.error()));
  if (auto r = put(runtime, device, d.topk_length_, inputs.topk_length); !r) return fail(std::move(r.error()));
  if (auto r = put(runtime, device, d.sink_, inputs.sink); !r) return fail(std::move(r.error()));
  if (auto r = reserve(runtime, device, d.out_, c.tokens * d.out_token_stride_ * 2); !r) return fail(std::move(r.error()));
  if (auto r = reserve(runtime, device, d.lse_, c.tokens * c.heads * 4); !r) return fail(std::move(r.error()));
  if (auto r = reserve(runtime, device, d.max_logits_, c.tokens * c.heads * 4); !r) return fail(std::move(r.error()));
  if (auto r = reserve(runtime, device, d.workspace_, static_cast<std::int64_t>(workspace.count)); !r) return fail(std::move(r.error()));

  SparseMlaPrefillArguments& a = d.arguments;
  a.q = strided3(d.q_.data(), c.tokens, c.heads, c.d_qk, q_token, q_head);
  a.kv = TensorView::contiguous(d.kv_.data(), DType::bf16, {c.kv_rows, c.d_qk});
  a.kv.stride[0] = kv_row;
  a.indices = TensorView::contiguous(d.indices_.data(), DType::i32, {c.tokens, c.topk});
  if (c.topk_length) a.topk_length = TensorView::contiguous(d.topk_length_.data(), DType::i32, {c.tokens});
  if (c.sink) a.attn_sink = TensorView::contiguous(d.sink_.data(), DType::f32, {c.heads});
  a.out = strided3(d.out_.data(), c.tokens, c.heads, kValueColumns, d.out_token_stride_, d.out_head_stride_);
  if (c.statistics) {
    a.lse = TensorView::contiguous(d.lse_.data(), DType::f32, {c.tokens, c.heads});
    a.max_logits = TensorView::contiguous(d.max_logits_.data(), DType::f32, {c.tokens, c.heads});
  }
  a.sm_scale = inputs.problem.sm_scale;
  a.workspace = d.workspace_.data();
  a.workspace_size = workspace;
  if (auto r = d.workspace_.fill(kPoison); !r) return fail(std::move(r.error()));
  if (auto r = d.poison_outputs(); !r) return fail(std::move(r.error()));
  return d;
}

Result<> DeviceProblem::upload_indices(const std::vector<std::int32_t>& indices) {
  return indices_.upload(std::as_bytes(std::span(indices)));
}

Result<> DeviceProblem::poison_outputs() {
  if (auto r = out_.fill(kPoison); !r) return r;
  if (auto r = lse_.fill(kPoison); !r) return r;
  return max_logits_.fill(kPoison);
}

Result<DeviceProblem::Outputs> DeviceProblem::download() const {
  Outputs outputs;
  std::vector<Bf16> wide(index(tokens_ * out_token_stride_));
  if (auto r = out_.download(std::as_writable_bytes(std::span(wide))); !r) return fail(std::move(r.error()));
  outputs.out.resize(index(tokens_ * heads_ * kValueColumns));
  std::vector<bool> written(wide.size(), false);
  for (std::int64_t t = 0; t < tokens_; ++t) {
    for (std::int64_t h = 0; h < heads_; ++h) {
      const std::int64_t from = t * out_token_stride_ + h * out_head_stride_;
      std::copy_n(wide.begin() + from, kValueColumns, outputs.out.begin() + (t * heads_ + h) * kValueColumns);
      std::fill_n(written.begin() + from, kValueColumns, true);
    }
  }
  for (std::size_t i = 0; i < wide.size(); ++i) outputs.gaps_untouched &= written[i] || wide[i] == 0xffff;
  if (statistics_) {
    outputs.lse.resize(index(tokens_ * heads_));
    outputs.max_logits.resize(index(tokens_ * heads_));
    if (auto r = lse_.download(std::as_writable_bytes(std::span(outputs.lse))); !r) return fail(std::move(r.error()));
    if (auto r = max_logits_.download(std::as_writable_bytes(std::span(outputs.max_logits))); !r) return fail(std::move(r.error()));
  }
  return outputs;
}

std::string CaseOutcome::text() const {
  std::string line = fmt::format("passed {} cosine {:.8f} rel_l2 {:.3e} bound violations {} worst ratio {:.3f} lse {:.2e} gaps {} {}",
                                 check.passed, check.worst_row_cosine, check.worst_row_rel_l2, check.bound_violations,
                                 check.worst_bound_ratio, check.lse_max_abs, gaps_untouched ? "untouched" : "WRITTEN", check.first_failure);
  for (const PrepareReport& report : reports) line += "; " + report.tile_fitted.text();
  return line;
}

support::SparseMlaCheck judge(const SparseMlaCase& c, const SparseMlaInputs& inputs, const DeviceProblem::Outputs& outputs) {
  const auto tokens = support::checked_tokens(c.tokens, c.group_size, c.seed);
  const auto repeated = c.group_size > 0 ? support::RepeatedPositions::once : support::RepeatedPositions::each;
  const auto reference = support::sparse_mla_reference(inputs.problem, tokens, repeated);
  return support::check_sparse_mla(reference, {outputs.out, outputs.lse, outputs.max_logits});
}

Result<CaseOutcome> run_case(const Runtime& runtime, DeviceId device, const SparseMlaCase& c) {
  auto op = SparseMlaPrefill::create(runtime, options_of(c, device));
  if (!op) return fail(std::move(op.error()));
  const auto inputs = make_inputs(c);
  auto problem = DeviceProblem::create(runtime, device, c, *inputs, op->workspace_bytes(c.tokens, c.kv_rows));
  if (!problem) return fail(std::move(problem.error()));
  auto stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  if (auto r = op->run(problem->arguments, stream->handle()); !r) return fail(std::move(r.error()));
  if (auto r = stream->synchronize(); !r) return fail(std::move(r.error()));
  auto outputs = problem->download();
  if (!outputs) return fail(std::move(outputs.error()));
  return CaseOutcome{judge(c, *inputs, *outputs), outputs->gaps_untouched, std::move(outputs->out), op->reports()};
}

std::vector<SparseMlaCase> contract_cases() {
  std::vector<SparseMlaCase> all;
  std::uint64_t seed = 1;
  for (const int heads : {1, 4, 8, 12, 16, 20, 32, 64, 128}) {
    for (const int group : {0, 2, 4, 8, 16}) {
      SparseMlaCase c;
      c.heads = heads;
      c.group_size = group;
      c.seed = seed++;
      c.tokens = 19;
      c.topk = 37 + static_cast<std::int64_t>(seed % 5) * 6;
      c.kv_rows = 101;
      c.sink = seed % 2 == 0;
      c.topk_length = seed % 3 != 0;
      c.statistics = seed % 4 != 1;
      c.holes = seed % 3 != 1;
      c.poison = seed % 2 == 1;
      c.planted = seed % 5 < 3;
      c.strided = seed % 4 == 2;
      c.d_qk = seed % 6 == 0 ? 512 : 576;
      c.logit_deviation = seed % 3 == 0 ? 6.0F : 1.0F;
      all.push_back(c);
    }
  }
  return all;
}

}  // namespace kernwright::cases
