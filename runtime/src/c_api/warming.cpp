// Warming for C.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <memory>

#include "c_api/handles.hpp"

using namespace kernwright;
using namespace kernwright::c_api;

namespace {

Result<WarmRequest> read_request(const kw_warm_request* from, std::size_t index) {
  const std::string name = fmt::format("requests[{}]", index);
  const auto given = read_struct(from, name);
  if (!given) return tl::unexpected<Error>(given.error());
  if (auto r = need(given->template_name, name + ".template_name"); !r) return fail(std::move(r.error()));
  if (auto r = need(given->target, name + ".target"); !r) return fail(std::move(r.error()));
  auto specialisation = Specialisation::parse(text_or_empty(given->specialisation));
  if (!specialisation) return fail(std::move(specialisation.error()).within(name));
  auto target = Target::parse(given->target);
  if (!target) return fail(std::move(target.error()).within(name));
  auto tile = read_tile(given->tile);
  if (!tile) return fail(std::move(tile.error()).within(name));
  WarmRequest request;
  request.template_name = given->template_name;
  request.specialisation = std::move(*specialisation);
  request.target = std::move(*target);
  request.tile = std::move(*tile);
  request.fall_backs = given->first_only == 0;
  return request;
}

std::string line_of(const WarmedItem& item) {
  return fmt::format("{} {} {} {}: {}", item.template_name, item.specialisation.text(), item.tile.text(), item.target.name(),
                     to_string(item.outcome));
}

Result<> warm(const Runtime& runtime, std::span<const WarmRequest> requests, const kw_warm_options* from, kw_warm_result** result) {
  kw_warm_options given;
  kw_init(&given);
  if (from != nullptr) {
    const auto read = read_struct(from, "options");
    if (!read) return tl::unexpected<Error>(read.error());
    given = *read;
  }
  std::atomic<bool> cancel{false};
  WarmOptions options;
  options.jobs = given.jobs;
  options.cancel = &cancel;
  if (given.progress != nullptr) {
    options.progress = [&](const WarmProgress& progress) {
      const std::string finished = progress.finished == nullptr ? std::string() : line_of(*progress.finished);
      kw_warm_progress values;
      kw_init(&values);
      values.planning = progress.planning ? 1 : 0;
      values.done = progress.done;
      values.total = progress.total;
      values.seconds_left = progress.seconds_left.value_or(-1.0);
      values.finished = progress.finished == nullptr ? nullptr : finished.c_str();
      if (given.progress(given.user, &values) != 0) cancel = true;
    };
  }
  auto summary = runtime.warm_all(requests, options);
  if (!summary) return fail(std::move(summary.error()));
  auto made = std::make_unique<kw_warm_result>();
  made->summary = std::move(*summary);
  for (const WarmedItem& item : made->summary.items) {
    made->text.push_back({item.specialisation.text(), item.tile.variant.empty() ? std::string() : item.tile.text()});
  }
  *result = made.release();
  return {};
}

}  // namespace

extern "C" {

kw_status kw_warm(const kw_runtime* runtime, const kw_warm_request* const* requests, size_t request_count, const kw_warm_options* options,
                  kw_warm_result** result) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(result, "result"); !r) return r;
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (request_count > 0) {
      if (auto r = need(requests, "requests"); !r) return r;
    }
    std::vector<WarmRequest> read;
    for (std::size_t i = 0; i < request_count; ++i) {
      auto request = read_request(requests[i], i);
      if (!request) return fail(std::move(request.error()));
      read.push_back(std::move(*request));
    }
    return warm(runtime->runtime, read, options, result);
  });
}

kw_status kw_warm_launch_list(const kw_runtime* runtime, const char* file, const char* const* targets, size_t target_count,
                              const kw_warm_options* options, kw_warm_result** result) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(result, "result"); !r) return r;
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (auto r = need(file, "file"); !r) return r;
    std::vector<Target> parsed;
    for (std::size_t i = 0; i < target_count; ++i) {
      if (targets == nullptr || targets[i] == nullptr) return null_pointer(fmt::format("targets[{}]", i));
      auto target = Target::parse(targets[i]);
      if (!target) return fail(std::move(target.error()));
      parsed.push_back(std::move(*target));
    }
    const auto requests = runtime->runtime.read_launch_list(file, parsed);
    if (!requests) return tl::unexpected<Error>(requests.error());
    return warm(runtime->runtime, *requests, options, result);
  });
}

kw_status kw_warm_result_summary(const kw_warm_result* result, kw_warm_summary* summary) {
  return guarded([&]() -> Result<> {
    if (auto r = need(result, "result"); !r) return r;
    const WarmSummary& from = result->summary;
    kw_warm_summary values;
    kw_init(&values);
    values.built = from.built;
    values.hit = from.hit;
    values.skipped = from.skipped;
    values.failed = from.failed;
    values.not_begun = from.not_begun;
    values.not_stored = from.not_stored;
    values.cancelled = from.cancelled ? 1 : 0;
    values.seconds = from.seconds;
    return write_struct(summary, values, "summary");
  });
}

kw_status kw_warm_result_count(const kw_warm_result* result, size_t* count) {
  return guarded([&]() -> Result<> {
    if (auto r = need(result, "result"); !r) return r;
    if (auto r = need(count, "count"); !r) return r;
    *count = result->summary.items.size();
    return {};
  });
}

kw_status kw_warm_result_item(const kw_warm_result* result, size_t index, kw_warm_item* item) {
  return guarded([&]() -> Result<> {
    if (auto r = need(result, "result"); !r) return r;
    if (index >= result->summary.items.size()) {
      return fail(ErrorCode::invalid_argument, fmt::format("index is {}; there are {} items", index, result->summary.items.size()));
    }
    const WarmedItem& from = result->summary.items[index];
    kw_warm_item values;
    kw_init(&values);
    values.template_name = from.template_name.c_str();
    values.specialisation = result->text[index].specialisation.c_str();
    values.target = from.target.name().c_str();
    values.tile = result->text[index].tile.c_str();
    values.reason = from.reason.c_str();
    values.key = from.key.c_str();
    values.compile_ms = from.compile_ms;
    values.outcome = static_cast<kw_warm_outcome>(from.outcome);
    return write_struct(item, values, "item");
  });
}

void kw_warm_result_destroy(kw_warm_result* result) {
  delete result;
}

}  // extern "C"

static_assert(static_cast<int>(WarmOutcome::built) == KW_WARM_BUILT && static_cast<int>(WarmOutcome::failed) == KW_WARM_FAILED);
