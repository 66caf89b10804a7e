#include "sparse_mla_recording.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "sparse_mla_tensors.hpp"
#include "sparse_mla_words.hpp"
#include "support/format.hpp"

namespace kernwright::tool {
namespace {

using support::SafetensorsEntry;
using support::SafetensorsFile;

constexpr std::int64_t kStrideMultiple = 8;
constexpr std::int64_t kLargestSparsity = 16;  // memory of a strided tensor over that of a dense one

tl::unexpected<Error> malformed(const SafetensorsFile& file, std::string_view problem) {
  return fail(ErrorCode::malformed, fmt::format("{}: {}", file.name(), problem));
}

Result<std::string> text_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.header().metadata.find(key);
  if (found == file.header().metadata.end()) return malformed(file, fmt::format("it is a recording, but its metadata has no '{}'", key));
  return found->second;
}

template <class T>
Result<std::vector<T>> read_output(const SafetensorsFile& file, std::string_view name, DType dtype,
                                   const std::vector<std::int64_t>& shape) {
  const SafetensorsEntry* const entry = file.header().find(name);
  if (entry == nullptr) return std::vector<T>{};
  if (entry->dtype != dtype || entry->shape != shape) {
    return malformed(file, fmt::format("tensor '{}' is {} [{}]; its input makes {} [{}] of it", name, entry->dtype_name,
                                       fmt::join(entry->shape, ", "), to_string(dtype), fmt::join(shape, ", ")));
  }
  return file.read<T>(*entry);
}

/// The numbers of "strides.NAME"; empty where there are none.
Result<std::vector<std::int64_t>> strides_of(const SafetensorsFile& file, const std::string& name, std::size_t rank) {
  const auto found = file.header().metadata.find("strides." + name);
  std::vector<std::int64_t> strides;
  if (found == file.header().metadata.end()) return strides;
  const std::string& text = found->second;
  for (const std::string& word : support::split(text, ',')) {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool innermost = strides.size() + 1 == rank;
    const bool whole = problem == std::errc() && end == word.data() + word.size();
    if (!whole || value < 1 || value > (std::int64_t{1} << 30) || (innermost ? value != 1 : value % kStrideMultiple != 0)) {
      return malformed(file, fmt::format("the metadata's strides.{} is '{}'; legal are {} numbers, multiples of {} and 1 at the end", name,
                                         text.substr(0, 80), rank, kStrideMultiple));
    }
    strides.push_back(value);
  }
  if (strides.size() != rank)
    return malformed(file, fmt::format("the metadata's strides.{} is '{}'; {} numbers are needed", name, text, rank));
  return strides;
}

bool worth_it(std::int64_t extent, std::int64_t elements) {
  return extent <= kLargestSparsity * std::max<std::int64_t>(elements, 1);
}

template <class T>
void compare(std::string_view name, const std::vector<T>& recorded, const std::vector<T>& replayed, std::int64_t columns,
             std::int64_t heads, RecordedComparison& comparison) {
  comparison.elements += static_cast<std::int64_t>(recorded.size());
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (std::bit_cast<std::array<std::byte, sizeof(T)>>(recorded[i]) == std::bit_cast<std::array<std::byte, sizeof(T)>>(replayed[i]))
      continue;
    if (comparison.differing++ > 0) continue;
    const auto row = static_cast<std::int64_t>(i) / columns;
    comparison.first = fmt::format("{} of token {}, head {}", name, row / heads, row % heads);
  }
}

}  // namespace

SparseMlaStrides dense_strides(std::int64_t heads, std::int64_t d_qk) {
  return {heads * d_qk, d_qk, d_qk, heads * kValueColumns, kValueColumns};
}

Result<std::optional<SparseMlaRecording>> read_recording(const SafetensorsFile& file, std::int64_t tokens, std::int64_t heads) {
  const auto format = file.header().metadata.find("kernwright_recording");
  if (format == file.header().metadata.end()) return std::optional<SparseMlaRecording>{};
  if (format->second != "1") return malformed(file, fmt::format("it is a recording of format '{}'; this version reads 1", format->second));
  SparseMlaRecording recording;
  const auto op = text_of(file, "op"), target = text_of(file, "target"), tile = text_of(file, "tile"), used = text_of(file, "union_used"),
             deterministic = text_of(file, "deterministic");
  for (const auto* each : {&op, &target, &tile, &used, &deterministic}) {
    if (!*each) return fail(Error(each->error()));
  }
  if (*op != "sparse_mla") return malformed(file, fmt::format("it records calls of '{}', not of sparse_mla", *op));
  recording.target = *target;
  auto parsed = Tile::parse(*tile);
  if (!parsed) return malformed(file, "the metadata's tile: " + parsed.error().message);
  recording.tile = std::move(*parsed);
  const auto group = parse_union(*used, false);
  if (!group || !*group) return malformed(file, fmt::format("the metadata's union_used is '{}'; legal are 0, 2, 4, 8, 16", *used));
  recording.union_used = **group;
  recording.deterministic = *deterministic == "1";
  auto out = read_output<support::Bf16>(file, "out", DType::bf16, {tokens, heads, kValueColumns});
  if (!out) return fail(std::move(out.error()));
  recording.out = std::move(*out);
  for (const auto& [name, to] : {std::pair{"max_logits", &recording.max_logits}, std::pair{"lse", &recording.lse}}) {
    auto values = read_output<float>(file, name, DType::f32, {tokens, heads});
    if (!values) return fail(std::move(values.error()));
    *to = std::move(*values);
  }
  return std::optional(std::move(recording));
}

Result<SparseMlaStrides> read_strides(const SafetensorsFile& file, std::int64_t tokens, std::int64_t heads, std::int64_t kv_rows,
                                      std::int64_t d_qk) {
  SparseMlaStrides strides = dense_strides(heads, d_qk);
  const auto q = strides_of(file, "q", 3), kv = strides_of(file, "kv", 2), out = strides_of(file, "out", 3);
  for (const auto* each : {&q, &kv, &out}) {
    if (!*each) return fail(Error(each->error()));
  }
  if (!q->empty() && worth_it(tokens * (*q)[0] + heads * (*q)[1], tokens * heads * d_qk)) {
    strides.q_token = (*q)[0];
    strides.q_head = (*q)[1];
  }
  if (!kv->empty() && worth_it(kv_rows * (*kv)[0], kv_rows * d_qk)) strides.kv_row = (*kv)[0];
  if (!out->empty() && worth_it(tokens * (*out)[0] + heads * (*out)[1], tokens * heads * kValueColumns)) {
    strides.out_token = (*out)[0];
    strides.out_head = (*out)[1];
  }
  return strides;
}

RecordedComparison compare_bits(const SparseMlaRecording& recorded, const HostOutput& replayed, std::int64_t heads) {
  RecordedComparison comparison;
  compare("out", recorded.out, replayed.out, kValueColumns, heads, comparison);
  compare("max_logits", recorded.max_logits, replayed.max_logits, 1, heads, comparison);
  compare("lse", recorded.lse, replayed.lse, 1, heads, comparison);
  for (std::size_t i = 0; i < recorded.out.size(); ++i) {
    const double difference = std::abs(static_cast<double>(support::bf16_to_float(recorded.out[i])) -
                                       static_cast<double>(support::bf16_to_float(replayed.out[i])));
    if (std::isnan(difference)) comparison.largest_difference = std::numeric_limits<double>::infinity();
    comparison.largest_difference = std::max(comparison.largest_difference, difference);
  }
  return comparison;
}

}  // namespace kernwright::tool
