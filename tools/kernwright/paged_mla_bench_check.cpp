#include "paged_mla_bench_check.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "device_upload.hpp"
#include "support/random.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::tool {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Result<PagedMlaBenchProblem> PagedMlaBenchProblem::create(const Runtime& runtime, const PagedMlaDecode& op, const BenchPool& pool,
                                                          const KvSource& source, std::uint64_t seed) {
  PagedMlaBenchProblem problem(op, pool, source, seed);
  const PagedMlaDecodeOptions& options = op.options();
  const std::int64_t batch = pool.shape().batch, rows = batch * problem.rows_of_request();
  auto stream = runtime.create_stream(options.device);
  if (!stream) return fail(std::move(stream.error()));
  problem.stream_ = std::move(*stream);
  problem.q_ = support::random_normal_bf16(rows * kKvRowWidth, seed, 1);
  auto q = to_device(runtime, options.device, problem.q_);
  auto out = output_buffer(runtime, options.device, Bytes{static_cast<std::uint64_t>(rows * kBenchValueWidth * 2)});
  auto lse = output_buffer(runtime, options.device, Bytes{static_cast<std::uint64_t>(rows * 4)});
  auto workspace = runtime.allocate(options.device, op.workspace_bytes());
  for (auto* buffer : {&q, &out, &lse, &workspace}) {
    if (!*buffer) return fail(std::move(buffer->error()).within("placing the problem on the device"));
  }
  problem.device_q_ = std::move(*q);
  problem.out_ = std::move(*out);
  problem.lse_ = std::move(*lse);
  problem.workspace_ = std::move(*workspace);
  PagedMlaDecodeArguments& a = problem.arguments_;
  const std::int64_t tokens = options.query_tokens, heads = options.heads;
  a.q = TensorView::contiguous(problem.device_q_.data(), DType::bf16, {batch, tokens, heads, kKvRowWidth});
  a.kv = pool.kv();
  a.seq_lens = pool.lengths();
  a.sm_scale = 1.0F / std::sqrt(static_cast<float>(kKvRowWidth));
  a.out = TensorView::contiguous(problem.out_.data(), DType::bf16, {batch, tokens, heads, kBenchValueWidth});
  a.lse = TensorView::contiguous(problem.lse_.data(), DType::f32, {batch, tokens, heads});
  a.workspace = problem.workspace_.data();
  a.workspace_size = op.workspace_bytes();
  return problem;
}

Result<> PagedMlaBenchProblem::run(std::int64_t set, StreamHandle stream) const {
  PagedMlaDecodeArguments arguments = arguments_;
  arguments.block_table = pool_->block_table(set);
  return op_->run(arguments, stream);
}

namespace {

/// The rows of these requests, one request behind the other; `width` elements are a row.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, const std::vector<std::int64_t>& requests, std::int64_t rows, std::int64_t width) {
  std::vector<T> some;
  for (const std::int64_t request : requests) {
    some.insert(some.end(), all.begin() + request * rows * width, all.begin() + (request + 1) * rows * width);
  }
  return some;
}

}  // namespace

std::vector<PagedMlaBenchProblem::Sample> PagedMlaBenchProblem::samples() const {
  const BenchPoolShape& shape = pool_->shape();
  support::SplitMix64 random(support::stream_seed(seed_, 4));
  std::vector<Sample> samples;
  for (const std::int64_t set : {std::int64_t{0}, shape.sets - 1}) {
    const std::set<std::int64_t> some{0, shape.batch - 1, random.below(static_cast<std::uint32_t>(shape.batch))};
    samples.push_back({set, {some.begin(), some.end()}});
  }
  return samples;
}

support::SparseMlaReference PagedMlaBenchProblem::reference(const Sample& sample) const {
  const PagedMlaDecodeOptions& options = op_->options();
  const BenchPoolShape& shape = pool_->shape();
  const std::int64_t new_tokens = options.query_tokens;
  const std::vector<support::Bf16> q = rows_of(q_, sample.requests, rows_of_request(), kKvRowWidth);
  std::vector<std::int32_t> indices, visible;
  for (const std::int64_t request : sample.requests) {
    const std::int64_t first = (sample.set * shape.batch + request) * shape.tokens;
    for (std::int64_t i = 0; i < new_tokens; ++i) {
      // New token i stands at position tokens − s_q + i and sees itself.
      visible.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, shape.tokens - new_tokens + i + 1)));
      for (std::int64_t t = 0; t < shape.tokens; ++t) indices.push_back(static_cast<std::int32_t>((first + t) % source_->count));
    }
  }
  support::SparseMlaProblem problem;
  problem.tokens = static_cast<std::int64_t>(sample.requests.size()) * new_tokens;
  problem.heads = options.heads;
  problem.kv_rows = source_->count;
  problem.topk = shape.tokens;
  problem.d_qk = kKvRowWidth;
  problem.d_v = kBenchValueWidth;
  problem.q = q;
  problem.kv = source_->rows;
  problem.indices = indices;
  problem.topk_length = visible;
  problem.sm_scale = arguments_.sm_scale;
  std::vector<std::int64_t> tokens(at(problem.tokens));
  std::iota(tokens.begin(), tokens.end(), 0);
  return support::sparse_mla_reference(problem, tokens, support::RepeatedPositions::each);
}

support::SparseMlaCheck PagedMlaBenchProblem::compare(const Sample& sample, const support::SparseMlaReference& reference,
                                                      const std::vector<support::Bf16>& out, const std::vector<float>& lse) const {
  const std::vector<support::Bf16> some_out = rows_of(out, sample.requests, rows_of_request(), kBenchValueWidth);
  const std::vector<float> some_lse = rows_of(lse, sample.requests, rows_of_request(), 1);
  support::SparseMlaCheck check = support::check_sparse_mla(reference, {some_out, some_lse, {}});
  const auto finite = [](support::Bf16 value) { return std::isfinite(support::bf16_to_float(value)); };
  if (check.passed && !std::ranges::all_of(out, finite)) {
    check.passed = false;
    check.first_failure = "an output that is not among those compared is not finite";
  }
  return check;
}

Result<PagedMlaBenchProblem::Checked> PagedMlaBenchProblem::check(const ReferenceSource& reference_of) {
  const std::int64_t rows = pool_->shape().batch * rows_of_request();
  Checked checked;
  for (const Sample& sample : samples()) {
    auto expected = reference_of(sample);
    if (!expected) return fail(std::move(expected.error()));
    Result<> done = out_.fill(std::byte{0xff});
    if (done) done = lse_.fill(std::byte{0xff});
    // An op with another tile may have left the right partial results there.
    if (done) done = workspace_.fill(std::byte{0xff});
    if (done) done = run(sample.set, stream_.handle());
    if (done) done = stream_.synchronize();
    if (!done) return fail(std::move(done.error()));
    const auto out = to_host<support::Bf16>(out_, rows * kBenchValueWidth);
    if (!out) return fail(Error(out.error()));
    const auto lse = to_host<float>(lse_, rows);
    if (!lse) return fail(Error(lse.error()));
    const support::SparseMlaCheck of_sample = compare(sample, *expected, *out, *lse);
    const bool first = checked.requests == 0;
    checked.requests += static_cast<std::int64_t>(sample.requests.size());
    // The worst is the answer.
    if (first || !of_sample.passed || of_sample.worst_bound_ratio > checked.check.worst_bound_ratio) checked.check = of_sample;
    if (!checked.check.passed) break;
  }
  return checked;
}

}  // namespace kernwright::tool
