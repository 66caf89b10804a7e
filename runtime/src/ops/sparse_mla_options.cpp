#include "ops/sparse_mla_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ops/sparse_mla_workspace.hpp"
#include "prepare/table_rows.hpp"

namespace kernwright {
namespace {

constexpr std::array kGroupSizes{0, 2, 4, 8, 16};

tl::unexpected<Error> refuse(std::string_view option, const std::string& came, std::string_view legal, std::string_view why = {}) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("option {} is {}; legal is {}{}{}", option, came, legal, why.empty() ? "" : ": ", why));
}

}  // namespace

Result<> check_options(const SparseMlaPrefillOptions& options) {
  if (options.heads < kSmallestHeads || options.heads > kLargestHeads) return refuse("heads", std::to_string(options.heads), "1 to 128");
  if (options.max_topk < 1 || options.max_topk > kLargestTopk) return refuse("max_topk", std::to_string(options.max_topk), "1 to 4096");
  if (options.d_qk != 576 && options.d_qk != 512) {
    return refuse("d_qk", std::to_string(options.d_qk), "576 (512 latent + 64 rope) or 512");
  }
  if (options.d_v != kValueColumns) return refuse("d_v", std::to_string(options.d_v), "512");
  if (options.dtype != DType::bf16) {
    return refuse("dtype", std::string(to_string(options.dtype)), "bf16", "no variant reads another; packed rows would be misread");
  }
  if (options.group_size && std::find(kGroupSizes.begin(), kGroupSizes.end(), *options.group_size) == kGroupSizes.end()) {
    return refuse("group_size", std::to_string(*options.group_size), "0 (off), 2, 4, 8, 16, or empty for auto");
  }
  if (options.index_kpool != 1) return refuse("index_kpool", std::to_string(options.index_kpool), "1", "an index must stand for one row");
  const int largest_group = options.deterministic ? 0 : options.group_size.value_or(kGroupSizes.back());
  if (largest_group > 0) {
    const Bytes one = union_layout(1, largest_group, options.max_topk, std::numeric_limits<std::int64_t>::max()).size;
    if (options.workspace_limit < one) {
      return refuse("workspace_limit", std::to_string(options.workspace_limit.count),
                    std::to_string(one.count) + " bytes, one group, and more");
    }
  }
  return options.readers.check(kPrefillReader, options.pool);
}

int unmeasured_group(int heads) {
  constexpr int kRows = 64;
  int group = 0;
  for (const int candidate : {2, 4, 8, 16}) {
    if (candidate * heads <= kRows) group = candidate;
  }
  return group;
}

Specialisation prefill_specialisation(const SparseMlaPrefillOptions& options, int group_size) {
  Specialisation specialisation;
  specialisation.set("heads", options.heads).set("group_size", group_size).set("d_qk", options.d_qk).set("dtype", options.dtype);
  return specialisation;
}

Result<UnionChoice> choose_union(Runtime::State& runtime, const SparseMlaPrefillOptions& options, const DeviceInfo& device) {
  if (options.deterministic) {
    const bool asked_off = options.group_size == 0;
    return UnionChoice{0, asked_off ? "" : "deterministic mode turns union off: a token's sums would depend on its group"};
  }
  if (options.group_size) return UnionChoice{*options.group_size, ""};
  auto tables = runtime.tables();
  if (!tables) return fail(std::move(tables.error()));
  Specialisation known;
  known.set("heads", options.heads).set("d_qk", options.d_qk).set("dtype", options.dtype);
  auto templates = runtime.templates();
  if (!templates) return fail(std::move(templates.error()));
  auto definition = (*templates)->find(kPrefillTemplate);
  if (!definition) return fail(std::move(definition.error()));
  warn_of_unmatched_rows(runtime, **tables, (*definition)->manifest);
  const TuningTables::Query query{kPrefillTemplate, known, device, (*definition)->digest};
  for (const auto& [row, table, closeness, stale] : (*tables)->preferences(query, "group_size")) {
    if (stale) {
      warn_of_stale_rows(runtime, **tables, table, **definition);
      continue;
    }
    const int group = static_cast<int>(row.value);
    const int legal_group = group == 1 ? 0 : group;
    if (std::find(kGroupSizes.begin(), kGroupSizes.end(), legal_group) != kGroupSizes.end()) {
      return UnionChoice{legal_group, row.measured.empty() ? "auto: a default of the tuning tables" : "auto: measured, " + row.measured};
    }
    runtime.warn_once(
        fmt::format("tuning table {} prefers group_size {}, which is not one of 0, 2, 4, 8, 16: the row is passed over", table, row.value));
  }
  const int group = unmeasured_group(options.heads);
  return UnionChoice{group, fmt::format("auto: {} heads, nothing measured for {}", options.heads, device.name)};
}

}  // namespace kernwright
