// kernwright tune sparse-mla: what the family is, from the words.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "key/key.hpp"
#include "ops/sparse_mla_options.hpp"
#include "platform/file_system.hpp"
#include "sparse_mla_tuning_bench.hpp"
#include "sparse_mla_words.hpp"
#include "support/format.hpp"
#include "support/number_list.hpp"
#include "tune_sparse_mla.hpp"

namespace kernwright::tool {
namespace {

constexpr std::string_view kDefaultChurn = "0.05";  // the headline of the figures; a table has one row for all churns

/// Where there are files, the heads and d_qk that all of them have.
struct Dimensions {
  std::vector<int> heads;
  int d_qk = 576;
};
Result<Dimensions> dimensions_of(const TuneSparseMlaWords& words) {
  Dimensions dimensions;
  if (words.points.inputs.empty()) {
    auto heads = support::parse_numbers("--heads", words.heads, kSmallestHeads, kLargestHeads);
    if (!heads) return fail(std::move(heads.error()));
    dimensions.heads = std::move(*heads);
    return dimensions;
  }
  for (const std::string& file : words.points.inputs) {
    const auto input = read_sparse_mla_input(file, SparseMlaParts::selection);
    if (!input) return fail(Error(input.error()));
    const auto heads = static_cast<int>(input->heads);
    const auto d_qk = static_cast<int>(input->d_qk);
    if (!dimensions.heads.empty() && (dimensions.heads.front() != heads || dimensions.d_qk != d_qk)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--input {}: it has {} heads and d_qk {}, the files before it {} and {}; tune one kind at a time", file,
                              heads, d_qk, dimensions.heads.front(), dimensions.d_qk));
    }
    dimensions.heads = {heads};
    dimensions.d_qk = d_qk;
  }
  return dimensions;
}

/// 1 for per token, as the template counts.
Result<std::vector<int>> group_sizes(const std::string& words) {
  std::vector<int> groups;
  for (const std::string& word : support::split(words, ',')) {
    const auto group = parse_union(word, false);
    if (!group || !*group) return fail(ErrorCode::invalid_argument, fmt::format("--union {}: legal are 0 (off), 2, 4, 8, 16", word));
    const int size = std::max(**group, 1);
    if (std::ranges::find(groups, size) == groups.end()) groups.push_back(size);
  }
  return groups;
}

Result<std::vector<std::string>> digests_of(const std::vector<std::string>& files) {
  std::vector<std::string> digests;
  for (const std::string& file : files) {
    const auto content = FileSystem::posix()->read(file, Bytes{std::numeric_limits<std::int64_t>::max()});
    if (!content) return fail(Error(content.error()).within("reading --input " + file));
    digests.push_back(content_hash(std::span<const std::byte>(*content)));
  }
  return digests;
}

Result<TuneFamily> family_of(const TuneSparseMlaWords& words, const DeviceInfo& device) {
  const auto dimensions = dimensions_of(words);
  if (!dimensions) return fail(Error(dimensions.error()));
  const auto groups = group_sizes(words.unions);
  if (!groups) return fail(Error(groups.error()));
  TuneFamily family;
  family.name = kSparseMlaFamily;
  family.comparison = {"group_size", "G", "union G (1: one token at a time)"};
  for (const int heads : dimensions->heads) {
    SparseMlaPrefillOptions options;
    options.heads = heads;
    options.d_qk = dimensions->d_qk;
    TuneFamily::Choice choice;
    choice.parameter = "group_size";
    choice.known.set("heads", heads).set("d_qk", dimensions->d_qk).set("dtype", options.dtype);
    choice.default_value = std::max(unmeasured_group(heads), 1);
    for (const int group : *groups) {
      choice.subjects.push_back(family.subjects.size());
      family.subjects.push_back({kPrefillTemplate, prefill_specialisation(options, group)});
    }
    family.choices.push_back(std::move(choice));
  }
  for (const int group : *groups) {
    if (group == 1) continue;
    for (const char* build : {kUnionBuildTemplate, kWideUnionBuildTemplate}) {
      family.companions.push_back({build, Specialisation().set("group_size", group), device.target, std::nullopt, false, device.id});
    }
  }
  const bool on_gpu = device.id.backend == BackendKind::cuda;
  const auto specs = point_specs(words.points, on_gpu);
  if (!specs) return fail(Error(specs.error()));
  for (const PointSpec& spec : *specs) family.shapes.push_back(spec.name);
  auto digests = digests_of(words.points.inputs);
  if (!digests) return fail(std::move(digests.error()));
  family.input_digests = std::move(*digests);
  if (words.points.topk) family.conditions["topk"] = *words.points.topk;
  family.bench = json_of(words.points);
  return family;
}

}  // namespace

ExitCode tune_sparse_mla(const TuneSparseMlaWords& words) {
  TuneSparseMlaWords complete = words;
  if (complete.points.churns.empty()) complete.points.churns = kDefaultChurn;
  complete.points.spread_rows = 0;
  complete.points.seed = words.tune.seed;
  return tune(words.tune, [&](const DeviceInfo& device) { return family_of(complete, device); });
}

}  // namespace kernwright::tool
