// kernwright tune paged-mla: what the family is, from the words.
#include "tune_paged_mla.hpp"

#include <fmt/format.h>

#include "ops/paged_kv_options.hpp"
#include "ops/paged_mla_options.hpp"
#include "ops/sparse_mla_options.hpp"
#include "paged_mla_tuning_bench.hpp"
#include "support/number_list.hpp"

namespace kernwright::tool {
namespace {

/// A request alone and batches of many, short and long: what a served decode meets.
constexpr const char* kGpuShapes = "1x4096,1x32768,16x32768,64x32768,128x4096";
constexpr const char* kHostShapes = "1x40,2x70";
constexpr int kMostQueryTokens = 8;
constexpr double kGiga = 1e9;

/// All pools stand in the device's memory at once. Of the default's shapes those are taken that it holds.
Result<std::vector<PagedMlaPoint>> batches_of(const TunePagedMlaWords& words, const DeviceInfo& device) {
  const bool on_gpu = device.id.backend == BackendKind::cuda;
  const bool given = !words.shapes.empty();
  const auto wanted = paged_mla_batches(given ? words.shapes : on_gpu ? kGpuShapes : kHostShapes);
  if (!wanted) return fail(Error(wanted.error()));
  const double usable = kUsableMemory * static_cast<double>(device.memory.count);
  double taken = 0;
  std::vector<PagedMlaPoint> batches;
  for (const PagedMlaPoint& batch : *wanted) {
    const double bytes = tuning_pool_shape(device, batch, words.page_size, words.tune.seed).bytes();
    if (taken + bytes <= usable) {
      taken += bytes;
      batches.push_back(batch);
    } else if (given) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("--shapes {}: its pool takes {:.1f} GB beside {:.1f} GB of those before it; {} has {:.1f} GB for all of them, "
                      "so give fewer or smaller ones",
                      batch.batch_name(), bytes / kGiga, taken / kGiga, device.name, usable / kGiga));
    } else {
      note(words.tune.output,
           fmt::format("{} is left out: {} has no {:.1f} GB more for its pool", batch.batch_name(), device.name, bytes / kGiga));
    }
  }
  if (batches.empty()) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} has memory for none of {}; give smaller ones with --shapes", device.name, kGpuShapes));
  }
  return batches;
}

Result<TuneFamily> family_of(const TunePagedMlaWords& words, const DeviceInfo& device) {
  const auto heads = support::parse_numbers("--heads", words.heads, kSmallestHeads, kLargestHeads);
  if (!heads) return fail(Error(heads.error()));
  const auto query_tokens = support::parse_numbers("--s-q", words.query_tokens, 1, kMostQueryTokens);
  if (!query_tokens) return fail(Error(query_tokens.error()));
  TuneFamily family;
  family.name = kPagedMlaFamily;
  family.comparison = {"query_tokens", "s_q", "number s_q of new tokens"};
  for (const int h : *heads) {
    for (const int s_q : *query_tokens) {
      PagedMlaDecodeOptions options;
      options.device = device.id;
      options.heads = h;
      options.query_tokens = s_q;
      options.page_size = words.page_size;
      if (auto checked = check_options(options); !checked) return fail(std::move(checked.error()));
      family.subjects.push_back({kDecodeTemplate, decode_specialisation(options)});
    }
  }
  auto batches = batches_of(words, device);
  if (!batches) return fail(std::move(batches.error()));
  for (const PagedMlaPoint& batch : *batches) family.shapes.push_back(batch.batch_name());
  family.bench = json_of(PagedMlaTuningBatches{std::move(*batches), words.page_size});
  // The merge, and what fills the pools.
  const auto companion = [&](const char* name, Specialisation specialisation) {
    family.companions.push_back({name, std::move(specialisation), device.target, std::nullopt, true, device.id});
  };
  companion(kCombineTemplate, Specialisation{}.set("dtype", PagedMlaDecodeOptions{}.dtype));
  for (PagedKvKernel& kernel : kernels_of(static_pool_options(device.id, words.page_size, 1))) {
    companion(kernel.template_name, std::move(kernel.specialisation));
  }
  return family;
}

}  // namespace

ExitCode tune_paged_mla(const TunePagedMlaWords& words) {
  return tune(words.tune, [&](const DeviceInfo& device) { return family_of(words, device); });
}

}  // namespace kernwright::tool
