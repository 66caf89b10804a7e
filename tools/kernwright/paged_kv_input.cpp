#include "paged_kv_input.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "host_memory.hpp"
#include "input_file.hpp"
#include "support/random.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kMostSlots = 1 << 20, kMostTokens = 1 << 24, kMostBatch = 65'536;
constexpr std::int32_t kSmallestId = -0x7fff'ffff - 1;
constexpr std::int64_t kGarbage[]{-1, 0x7fff'ffff, 0, 1, kSmallestId};

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

float default_scale(std::int64_t d_qk) {
  return 1.0F / std::sqrt(static_cast<float>(d_qk));
}

std::int64_t pages_of(std::int64_t tokens, std::int64_t page_size) {
  return (std::max<std::int64_t>(tokens, 0) + page_size - 1) / page_size;
}

/// Attention reads pages: within one, a request's tokens must follow each other from the page's first.
std::optional<std::string> page_problem(const PagedKvInput& input) {
  for (std::int64_t lane = 0; lane < input.batch.lanes(); ++lane) {
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < input.batch.length(lane); ++i) {
      const std::int64_t token = input.batch.token(lane, i), offset = i % input.page_size;
      if (offset == 0) first = token;
      const bool mapped = input.has_page(first);
      if (mapped ? token == first + offset && first % input.page_size == 0 : token < input.page_size) continue;
      return fmt::format(
          "request {} has token {} at place {}; legal is what follows from its page's first, {}: a page's tokens one after the other, "
          "beginning with a multiple of page_size {} in a page from 1 to {}, or all of them below {}: the sink",
          lane, token, i, first, input.page_size, input.virtual_pages - 1, input.page_size);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<PagedKvInput> generate_paged_kv_input(const PagedKvShape& shape) {
  PagedKvInput input;
  input.page_size = shape.page_size;
  input.layers = shape.layers;
  input.heads = shape.heads;
  input.query_tokens = shape.query_tokens;
  input.sm_scale = default_scale(input.d_qk);
  support::SplitMix64 random(support::stream_seed(shape.seed, 3));
  const std::int64_t ps = shape.page_size;
  const std::int64_t lengths[]{shape.tokens, 1, ps, 0, ps + 1, ps - 1, -1};
  std::int64_t needed = 0;
  for (std::int64_t lane = 0; lane < shape.batch; ++lane) {
    // Every second one is of any length, so that a large batch is not made of short requests.
    const bool any = lane > 0 && lane % 2 == 0;
    const std::int64_t length =
        any ? random.below(static_cast<std::uint32_t>(shape.tokens + 1)) : lengths[at(lane / 2 + (lane > 0 ? 1 : 0)) % std::size(lengths)];
    input.batch.lengths.push_back(std::min(length, shape.tokens));
    input.batch.starts.push_back(lane % 3 == 1 ? ps : 0);
    needed += pages_of(input.batch.lengths.back(), ps);
  }
  input.virtual_pages = 2 * needed + 3;
  input.slots = shape.batch + 1;
  input.batch.stride = ps + pages_of(shape.tokens, ps) * ps + 1;
  const auto rows = static_cast<double>(input.virtual_pages * ps);
  const double pool_bytes = rows * static_cast<double>((shape.layers + 1) * input.d_qk) * 2;
  const double ids = static_cast<double>(input.slots) * static_cast<double>(input.batch.stride) * 8;
  // The rows, and what the pool must hold beside what it holds.
  if (auto enough = require_host_memory(ids + 3 * pool_bytes, "the input and the pool's expected bytes"); !enough) {
    return fail(std::move(enough.error()));
  }
  if (rows * static_cast<double>(shape.layers) > 0x7fff'0000) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--batch {} of --tokens {} in --layers {}: a generated pool may have 2^31 rows; give fewer", shape.batch,
                            shape.tokens, shape.layers));
  }
  std::vector<std::int64_t> pages(at(input.virtual_pages - 1));
  std::iota(pages.begin(), pages.end(), 1);
  for (std::size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[random.below(static_cast<std::uint32_t>(i))]);
  for (std::int64_t i = 0; i < input.slots * input.batch.stride; ++i)
    input.batch.req_to_token.push_back(kGarbage[i % std::ssize(kGarbage)]);
  std::size_t taken = 0;
  for (std::int64_t lane = 0; lane < shape.batch; ++lane) {
    const std::int64_t slot = (lane * 5 + 2) % input.slots;
    // Slots repeat where 5 divides their number; the lane's own is as good.
    input.batch.requests.push_back(input.slots % 5 == 0 ? lane : slot);
    const std::int64_t begin = input.batch.requests.back() * input.batch.stride + input.batch.starts[at(lane)];
    for (std::int64_t i = 0; i < input.batch.length(lane); ++i) {
      if (i % ps == 0) ++taken;
      // One page in the midst of the longest request is not mapped: attention reads the sink there.
      const bool tombstone = lane == 0 && shape.tokens > 2 * ps && i / ps == 1;
      input.batch.req_to_token[at(begin + i)] = tombstone ? -1 : pages[taken - 1] * ps + i % ps;
    }
  }
  input.q = support::random_normal_bf16(shape.batch * shape.query_tokens * shape.heads * input.d_qk, shape.seed, 1);
  input.kv = support::random_normal_bf16(input.virtual_pages * ps * input.d_qk, shape.seed, 2);
  input.description = fmt::format("generated: {} requests of up to {} tokens, seed {}", shape.batch, shape.tokens, shape.seed);
  return input;
}

Result<PagedKvInput> read_paged_kv_input(const std::filesystem::path& path) {
  auto file = support::SafetensorsFile::open(path);
  if (!file) return fail(std::move(file.error()));
  const InputFile tensors(*file, "req_to_token, requests, lengths, q and kv");
  const auto tokens = tensors.find("req_to_token", DType::i32, "I32", "[slots, width]", 2, true);
  if (!tokens) return fail(Error(tokens.error()));
  const auto requests = tensors.find("requests", DType::i64, "I64", "[B]", 1, true);
  if (!requests) return fail(Error(requests.error()));
  const auto lengths = tensors.find("lengths", DType::i64, "I64", "[B]", 1, true);
  if (!lengths) return fail(Error(lengths.error()));
  const auto starts = tensors.find("starts", DType::i64, "I64", "[B]", 1, false);
  if (!starts) return fail(Error(starts.error()));
  const auto q = tensors.find("q", DType::bf16, "BF16", "[B, s_q, H, d_qk]", 4, true);
  if (!q) return fail(Error(q.error()));
  const auto kv = tensors.find("kv", DType::bf16, "BF16", "[V · page_size, d_qk]", 2, true);
  if (!kv) return fail(Error(kv.error()));
  PagedKvInput input;
  const auto page_size = tensors.number("page_size", 1, 128, 64), layers = tensors.number("layers", 1, 1024, 1);
  if (!page_size) return fail(Error(page_size.error()));
  if (!layers) return fail(Error(layers.error()));
  input.page_size = *page_size;
  input.layers = *layers;
  input.slots = (*tokens)->shape[0];
  input.batch.stride = (*tokens)->shape[1];
  input.query_tokens = (*q)->shape[1];
  input.heads = (*q)->shape[2];
  input.d_qk = (*q)->shape[3];
  input.virtual_pages = (*kv)->shape[0] / input.page_size;
  const std::int64_t batch = (*requests)->shape[0];
  Result<> checked = tensors.require_range(**tokens, 0, 1, kMostSlots, "slots");
  if (checked) checked = tensors.require_range(**tokens, 1, 1, kMostTokens, "width");
  if (checked) checked = tensors.require_range(**requests, 0, 1, kMostBatch, "B");
  if (checked) checked = tensors.require_extent(**lengths, 0, batch, "B as requests has it");
  if (checked && *starts != nullptr) checked = tensors.require_extent(**starts, 0, batch, "B as requests has it");
  if (checked) checked = tensors.require_extent(**q, 0, batch, "B as requests has it");
  if (checked) checked = tensors.require_range(**q, 1, 1, 8, "s_q");
  if (checked) checked = tensors.require_range(**q, 2, 1, 128, "H");
  if (checked && input.d_qk != 576 && input.d_qk != 512) {
    checked = tensors.malformed(fmt::format("tensor 'q' has shape [{}]; d_qk (extent 3) must be 576 or 512", fmt::join((*q)->shape, ", ")));
  }
  if (checked) checked = tensors.require_extent(**kv, 1, input.d_qk, "d_qk as q has it");
  if (checked && ((*kv)->shape[0] % input.page_size != 0 || input.virtual_pages < 2)) {
    checked =
        tensors.malformed(fmt::format("tensor 'kv' has shape [{}]; its rows must be those of whole pages of {} tokens, at least 2 pages",
                                      fmt::join((*kv)->shape, ", "), input.page_size));
  }
  if (checked) {
    const auto pool = static_cast<double>((*kv)->bytes()) * static_cast<double>(input.layers + 1);
    checked = require_host_memory(static_cast<double>((*tokens)->bytes()) * 2 + static_cast<double>((*q)->bytes()) + 3 * pool,
                                  "the input and the pool's expected bytes");
  }
  if (!checked) return fail(std::move(checked.error()));

  const auto read = [&]<class T>(const support::SafetensorsEntry* entry, std::vector<T>& to) -> Result<> {
    if (entry == nullptr) return {};
    auto elements = file->read<T>(*entry);
    if (!elements) return fail(std::move(elements.error()));
    to = std::move(*elements);
    return {};
  };
  std::vector<std::int32_t> narrow;
  Result<> done = read(*tokens, narrow);
  if (done) done = read(*requests, input.batch.requests);
  if (done) done = read(*lengths, input.batch.lengths);
  if (done) done = read(*starts, input.batch.starts);
  if (done) done = read(*q, input.q);
  if (done) done = read(*kv, input.kv);
  if (!done) return fail(std::move(done.error()));
  input.batch.req_to_token.assign(narrow.begin(), narrow.end());
  for (std::int64_t lane = 0; lane < batch; ++lane) {
    const std::int64_t slot = input.batch.requests[at(lane)], start = input.batch.starts.empty() ? 0 : input.batch.starts[at(lane)];
    if (slot < 0 || slot >= input.slots || start < 0 || start > input.batch.stride ||
        input.batch.length(lane) > input.batch.stride - start) {
      return tensors.malformed(fmt::format("request {} has slot {}, start {} and length {}; legal is what lies in req_to_token [{}, {}]",
                                           lane, slot, start, input.batch.lengths[at(lane)], input.slots, input.batch.stride));
    }
  }
  if (const auto problem = page_problem(input)) return tensors.malformed(*problem);
  const auto scale = tensors.sm_scale(default_scale(input.d_qk));
  if (!scale) return fail(Error(scale.error()));
  input.sm_scale = *scale;
  input.description = path.string();
  return input;
}

}  // namespace kernwright::tool
