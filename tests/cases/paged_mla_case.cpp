#include "cases/paged_mla_case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cases/case_tiles.hpp"
#include "ops/paged_mla_options.hpp"
#include "support/random.hpp"

namespace kernwright::cases {
namespace {

using support::Bf16;

constexpr std::int64_t kValueColumns = 512;
constexpr std::int64_t kStrideGap = 24;  // elements; a multiple of 8
constexpr std::byte kPoison{0xff};

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

std::int64_t tokens_of(const PagedMlaCase& c, std::int64_t request) {
  return std::max<std::int64_t>(c.lengths[index(request)], 0);
}

/// Makes the request's kv row `key` the query of (draft token, head 0): its logit is then the squared norm, about 24 deviations above the
/// others.
void plant(const PagedMlaCase& c, PagedMlaInputs& inputs, std::int64_t request, std::int64_t token, std::int64_t key) {
  if (key < 0 || key >= tokens_of(c, request)) return;
  std::copy_n(inputs.q.begin() + (request * c.query_tokens + token) * c.heads * c.d_qk, c.d_qk,
              inputs.rows.begin() + (inputs.first_row[index(request)] + key) * c.d_qk);
}

}  // namespace

std::string PagedMlaCase::text() const {
  return fmt::format("H={} s_q={} page={} d_qk={} {} lengths={} deviation={}{}{}{} seed={}", heads, query_tokens, page_size, d_qk,
                     layers == 0 ? "static" : fmt::format("unified L={}", layers), lengths, logit_deviation, strided ? " strided" : "",
                     shares ? fmt::format(" shares={}", *shares) : "", tile ? " tile=" + tile->text() : "", seed);
}

PagedMlaDecodeOptions options_of(const PagedMlaCase& c, DeviceId device) {
  PagedMlaDecodeOptions options;
  options.device = device;
  options.heads = c.heads;
  options.query_tokens = c.query_tokens;
  options.page_size = c.page_size;
  options.d_qk = c.d_qk;
  options.pool = c.layers == 0 ? PoolKind::static_pool : PoolKind::unified_mla;
  options.shares = c.shares;
  options.tile = c.tile;
  return options;
}

std::unique_ptr<PagedMlaInputs> make_inputs(const PagedMlaCase& c) {
  auto inputs = std::make_unique<PagedMlaInputs>();
  std::int64_t rows = 0, longest = 1;
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    inputs->first_row.push_back(rows);
    rows += tokens_of(c, b);
    longest = std::max(longest, tokens_of(c, b));
  }
  const std::int64_t tokens = c.batch() * c.query_tokens;
  inputs->q = support::random_normal_bf16(tokens * c.heads * c.d_qk, c.seed, 1);
  inputs->rows = support::random_normal_bf16(rows * c.d_qk, c.seed, 2);
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    const std::int64_t length = tokens_of(c, b);
    for (std::int64_t i = 0; i < c.query_tokens; ++i) {
      // The new token stands at length − s_q + i and sees itself.
      inputs->visible.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, length - c.query_tokens + i + 1)));
      for (std::int64_t k = 0; k < longest; ++k) {
        inputs->indices.push_back(static_cast<std::int32_t>(inputs->first_row[index(b)] + k));
      }
      if (c.planted) plant(c, *inputs, b, i, length - c.query_tokens + i);
    }
    if (c.planted && b % 2 == 0) {
      constexpr std::int64_t kEdges[]{0, 15, 16, 31, 32, 63, 64};
      plant(c, *inputs, b, 0, kEdges[index(b) / 2 % std::size(kEdges)]);
    }
  }
  support::SparseMlaProblem& p = inputs->problem;
  p.tokens = tokens;
  p.heads = c.heads;
  p.kv_rows = rows;
  p.topk = longest;
  p.d_qk = c.d_qk;
  p.d_v = kValueColumns;
  p.sm_scale = c.logit_deviation / std::sqrt(static_cast<float>(c.d_qk));
  p.q = inputs->q;
  p.kv = inputs->rows;
  p.indices = inputs->indices;
  p.topk_length = inputs->visible;
  return inputs;
}

PagedMlaProblem::PagedMlaProblem(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs,
                                 const PagedRows& rows, Bytes workspace)
    : rows_(c.batch() * c.query_tokens * c.heads), heads_(c.heads) {
  const std::int64_t gap = c.strided ? kStrideGap : 0;
  const std::int64_t q_head = c.d_qk + gap, q_token = c.heads * q_head + gap, q_request = c.query_tokens * q_token + gap;
  head_stride_ = kValueColumns + gap;
  token_stride_ = c.heads * head_stride_ + gap;
  std::vector<Bf16> q(index(c.batch() * q_request), Bf16{0xffff});
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t token = row / c.heads, to = token / c.query_tokens * q_request + token % c.query_tokens * q_token;
    std::copy_n(inputs.q.begin() + row * c.d_qk, c.d_qk, q.begin() + to + row % c.heads * q_head);
  }
  const auto allocate = [&](std::int64_t bytes) {
    auto buffer = runtime.allocate(device, Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 256))});
    REQUIRE_MESSAGE(buffer, (buffer ? "" : buffer.error().text()));
    return std::move(*buffer);
  };
  q_ = allocate(static_cast<std::int64_t>(q.size()) * 2);
  out_ = allocate(rows_ / heads_ * token_stride_ * 2);
  lse_ = allocate(rows_ * 4);
  workspace_ = allocate(static_cast<std::int64_t>(workspace.count));
  REQUIRE(q_.upload(std::as_bytes(std::span(q))));
  lengths_ = std::make_unique<DeviceIntegers>(runtime, device, c.length_dtype, c.lengths);

  const auto four = [&](void* data, std::int64_t width, std::int64_t request, std::int64_t token, std::int64_t head) {
    TensorView view = TensorView::contiguous(data, DType::bf16, {c.batch(), c.query_tokens, c.heads, width});
    view.stride[0] = request;
    view.stride[1] = token;
    view.stride[2] = head;
    return view;
  };
  arguments.q = four(q_.data(), c.d_qk, q_request, q_token, q_head);
  arguments.kv = rows.kv();
  arguments.block_table = rows.block_table();
  arguments.seq_lens = lengths_->line();
  arguments.sm_scale = inputs.problem.sm_scale;
  arguments.out = four(out_.data(), kValueColumns, c.query_tokens * token_stride_, token_stride_, head_stride_);
  arguments.lse = TensorView::contiguous(lse_.data(), DType::f32, {c.batch(), c.query_tokens, c.heads});
  arguments.workspace = workspace_.data();
  arguments.workspace_size = workspace;
  poison();
}

void PagedMlaProblem::poison() {
  REQUIRE(out_.fill(kPoison));
  REQUIRE(lse_.fill(kPoison));
  REQUIRE(workspace_.fill(kPoison));
}

PagedMlaProblem::Outputs PagedMlaProblem::download() const {
  Outputs outputs;
  std::vector<Bf16> wide(index(rows_ / heads_ * token_stride_));
  REQUIRE(out_.download(std::as_writable_bytes(std::span(wide))));
  outputs.out.resize(index(rows_ * kValueColumns));
  std::vector<bool> written(wide.size(), false);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t from = row / heads_ * token_stride_ + row % heads_ * head_stride_;
    std::copy_n(wide.begin() + from, kValueColumns, outputs.out.begin() + row * kValueColumns);
    std::fill_n(written.begin() + from, kValueColumns, true);
  }
  for (std::size_t i = 0; i < wide.size(); ++i) outputs.gaps_untouched &= written[i] || wide[i] == 0xffff;
  outputs.lse.resize(index(rows_));
  REQUIRE(lse_.download(std::as_writable_bytes(std::span(outputs.lse))));
  return outputs;
}

support::SparseMlaCheck check_of(const PagedMlaInputs& inputs, const PagedMlaProblem::Outputs& outputs) {
  std::vector<std::int64_t> tokens(index(inputs.problem.tokens));
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto reference = support::sparse_mla_reference(inputs.problem, tokens, support::RepeatedPositions::each);
  return support::check_sparse_mla(reference, {outputs.out, outputs.lse, {}});
}

void judge(const PagedMlaInputs& inputs, const PagedMlaProblem::Outputs& outputs) {
  const auto check = check_of(inputs, outputs);
  CHECK_MESSAGE(check.passed, check.first_failure);
  CHECK(check.rows == static_cast<std::int64_t>(outputs.lse.size()));
  CHECK(outputs.gaps_untouched);
}

PagedMlaProblem::Outputs decode_once(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs) {
  CAPTURE(c.text());
  auto op = PagedMlaDecode::create(runtime, options_of(c, device));
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  std::unique_ptr<PagedRows> rows;
  if (c.layers == 0) {
    rows = make_static_rows(runtime, device, c, inputs);
  } else {
    auto unified = std::make_unique<UnifiedRows>(runtime, device, c, inputs);
    CHECK(unified->compact() > 0);
    rows = std::move(unified);
  }
  PagedMlaProblem problem(runtime, device, c, inputs, *rows, op->workspace_bytes());
  auto stream = runtime.create_stream(device);
  REQUIRE(stream);
  const auto ran = op->run(problem.arguments, stream->handle());
  REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().text()));
  REQUIRE(stream->synchronize());
  if (c.tile) CHECK(op->reports().front().tile_fitted == *c.tile);
  return problem.download();
}

void decode_is_right(const Runtime& runtime, DeviceId device, const PagedMlaCase& c) {
  CAPTURE(c.text());
  const auto inputs = make_inputs(c);
  judge(*inputs, decode_once(runtime, device, c, *inputs));
}

std::vector<Tile> fitting_tiles(const Runtime& runtime, DeviceId device, const PagedMlaCase& c) {
  return fitting_tiles(runtime, device, kDecodeTemplate, decode_specialisation(options_of(c, device)));
}

std::vector<PagedMlaCase> paged_mla_cases() {
  std::vector<PagedMlaCase> all;
  const auto add = [&](int heads, int query_tokens, int page_size, int layers, std::vector<std::int64_t> lengths) -> PagedMlaCase& {
    PagedMlaCase c;
    c.heads = heads;
    c.query_tokens = query_tokens;
    c.page_size = page_size;
    c.layers = layers;
    c.lengths = std::move(lengths);
    c.seed = all.size() + 1;
    return all.emplace_back(std::move(c));
  };
  add(8, 1, 64, 0, {0, 1, 63, 64, 65, 300, -3}).length_dtype = DType::i64;
  add(1, 4, 1, 3, {3, 4, 0, 1, 2, 150, 33});
  add(3, 2, 128, 3, {127, 128, 129, 1, 0}).strided = true;
  add(16, 4, 16, 0, {0, 2, 15, 16, 17, 50}).logit_deviation = 6;
  add(128, 1, 64, 1, {64, 0, 65});
  return all;
}

}  // namespace kernwright::cases
