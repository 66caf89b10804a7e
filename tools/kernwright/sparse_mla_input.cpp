#include "sparse_mla_input.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <span>

#include "host_memory.hpp"
#include "input_file.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"

namespace kernwright::tool {
namespace {

using support::SafetensorsEntry;
using support::SafetensorsFile;

float default_scale(std::int64_t d_qk) {
  return 1.0F / std::sqrt(static_cast<float>(d_qk));
}

}  // namespace

support::SparseMlaProblem SparseMlaInput::problem() const {
  support::SparseMlaProblem views;
  views.tokens = tokens;
  views.heads = heads;
  views.kv_rows = kv_rows;
  views.topk = topk;
  views.d_qk = d_qk;
  views.q = q;
  views.kv = kv;
  views.indices = indices;
  views.topk_length = topk_length;
  views.attn_sink = attn_sink;
  views.sm_scale = sm_scale;
  return views;
}

Result<SparseMlaInput> read_sparse_mla_input(const std::filesystem::path& path, SparseMlaParts parts) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file) return fail(std::move(file.error()));
  const InputFile tensors(*file, "q, kv and indices");
  const auto q = tensors.find("q", DType::bf16, "BF16", "[T, H, d_qk]", 3, true);
  if (!q) return fail(Error(q.error()));
  const auto kv = tensors.find("kv", DType::bf16, "BF16", "[S, d_qk]", 2, true);
  if (!kv) return fail(Error(kv.error()));
  const auto indices = tensors.find("indices", DType::i32, "I32", "[T, K]", 2, true);
  if (!indices) return fail(Error(indices.error()));
  const auto topk_length = tensors.find("topk_length", DType::i32, "I32", "[T]", 1, false);
  if (!topk_length) return fail(Error(topk_length.error()));
  const auto attn_sink = tensors.find("attn_sink", DType::f32, "F32", "[H]", 1, false);
  if (!attn_sink) return fail(Error(attn_sink.error()));

  SparseMlaInput input;
  input.tokens = (*q)->shape[0];
  input.heads = (*q)->shape[1];
  input.d_qk = (*q)->shape[2];
  input.kv_rows = (*kv)->shape[0];
  input.topk = (*indices)->shape[1];
  Result<> checked = tensors.require_range(**q, 1, 1, 128, "H");
  if (checked && input.d_qk != 576 && input.d_qk != 512) {
    checked = tensors.malformed(fmt::format("tensor 'q' has shape [{}]; d_qk (extent 2) must be 576 or 512", fmt::join((*q)->shape, ", ")));
  }
  if (checked) checked = tensors.require_extent(**kv, 1, input.d_qk, "d_qk as q has it");
  if (checked) checked = tensors.require_range(**kv, 0, 0, 2'147'483'647, "S");
  if (checked) checked = tensors.require_extent(**indices, 0, input.tokens, "T as q has it");
  if (checked) checked = tensors.require_range(**indices, 1, 1, 4096, "K");
  if (checked && *topk_length != nullptr) checked = tensors.require_extent(**topk_length, 0, input.tokens, "T as q has it");
  if (checked && *attn_sink != nullptr) checked = tensors.require_extent(**attn_sink, 0, input.heads, "H as q has it");
  if (checked) checked = require_host_memory(static_cast<double>((*q)->bytes() + (*kv)->bytes() + (*indices)->bytes()), "the input");
  if (!checked) return fail(std::move(checked.error()));

  const auto read = [&]<class T>(const SafetensorsEntry* entry, std::vector<T>& to) -> Result<> {
    if (entry == nullptr) return {};
    Result<std::vector<T>> elements = file->read<T>(*entry);
    if (!elements) return fail(std::move(elements.error()));
    to = std::move(*elements);
    return {};
  };
  const bool all = parts == SparseMlaParts::all;
  Result<> done;
  if (all) done = read(*q, input.q);
  if (done && all) done = read(*kv, input.kv);
  if (done) done = read(*indices, input.indices);
  if (done) done = read(*topk_length, input.topk_length);
  if (done) done = read(*attn_sink, input.attn_sink);
  if (!done) return fail(std::move(done.error()));
  const Result<float> scale = tensors.sm_scale(default_scale(input.d_qk));
  if (!scale) return fail(Error(scale.error()));
  input.sm_scale = *scale;
  const auto strides = read_strides(*file, input.tokens, input.heads, input.kv_rows, input.d_qk);
  if (!strides) return fail(Error(strides.error()));
  input.strides = *strides;
  if (all) {
    auto recorded = read_recording(*file, input.tokens, input.heads);
    if (!recorded) return fail(std::move(recorded.error()));
    input.recorded = std::move(*recorded);
  }
  input.description = path.string();
  return input;
}

Result<SparseMlaInput> generate_sparse_mla_input(const support::WalkOptions& options, std::int64_t heads) {
  SparseMlaInput input;
  const double tokens = static_cast<double>(options.tokens) * static_cast<double>(options.batch);
  const double rows = options.kv_rows ? static_cast<double>(*options.kv_rows) : tokens;
  const double elements = tokens * static_cast<double>(heads) * static_cast<double>(input.d_qk) + rows * static_cast<double>(input.d_qk);
  if (Result<> enough = require_host_memory(2 * elements + 4 * tokens * static_cast<double>(options.topk), "the generated input");
      !enough) {
    return fail(std::move(enough.error()));
  }
  Result<support::Walk> walk = support::make_walk(options);
  if (!walk) return fail(std::move(walk.error()));
  input.tokens = walk->tokens;
  input.heads = heads;
  input.kv_rows = walk->kv_rows;
  input.topk = walk->topk;
  input.indices = std::move(walk->indices);
  input.q = support::random_normal_bf16(input.tokens * heads * input.d_qk, options.seed, 1);
  input.kv = support::random_normal_bf16(input.kv_rows * input.d_qk, options.seed, 2);
  input.sm_scale = default_scale(input.d_qk);
  input.strides = dense_strides(heads, input.d_qk);
  input.description =
      fmt::format("generated walk: {} × {} tokens, churn {}, seed {}", options.batch, options.tokens, options.churn, options.seed);
  return input;
}

}  // namespace kernwright::tool
