#include "warm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <thread>

// choose_union is the library's own answer to what `auto` means for a target: the program must not have another.
#include "ops/sparse_mla_options.hpp"
#include "reports.hpp"
#include "support/format.hpp"
#include "support/progress.hpp"
#include "target_choice.hpp"

namespace kernwright::tool {
namespace {

Result<std::vector<Target>> parse_targets(const std::string& words) {
  std::vector<Target> targets;
  const auto legal = [] {
    std::string names = "host";
    for (const Target& target : Target::all_cuda()) names += ", " + target.name();
    return names;
  };
  for (const std::string& word : support::split(words, ',')) {
    Result<Target> target = Target::parse(word);
    if (!target)
      return fail(ErrorCode::invalid_argument, fmt::format("--target {}: '{}' is no target; legal are {}", words, word, legal()));
    if (std::ranges::find(targets, *target) == targets.end()) targets.push_back(std::move(*target));
  }
  if (targets.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("--target is needed: one or more of {}, comma-separated", legal()));
  return targets;
}

Result<std::vector<int>> parse_heads(const std::string& words) {
  std::vector<int> heads;
  for (const std::string& word : support::split(words, ',')) {
    int value = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (problem != std::errc() || end != word.data() + word.size() || value < 1 || value > 128) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--heads {}: '{}' is not legal; legal are numbers from 1 to 128, comma-separated", words, word));
    }
    if (std::ranges::find(heads, value) == heads.end()) heads.push_back(value);
  }
  if (heads.empty()) return fail(ErrorCode::invalid_argument, "--heads is empty; legal are numbers from 1 to 128, comma-separated");
  return heads;
}

/// −1 stands for auto.
Result<std::vector<int>> parse_unions(const std::string& words) {
  std::vector<int> unions;
  for (const std::string& word : support::split(words, ',')) {
    int value = -2;
    if (word == "auto") value = -1;
    for (const int group : {0, 2, 4, 8, 16}) {
      if (word == std::to_string(group)) value = group;
    }
    if (value == -2) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--union {}: '{}' is not legal; legal are auto, 0 (off), 2, 4, 8, 16, comma-separated", words, word));
    }
    if (std::ranges::find(unions, value) == unions.end()) unions.push_back(value);
  }
  if (unions.empty()) return fail(ErrorCode::invalid_argument, "--union is empty; legal are auto, 0 (off), 2, 4, 8, 16, comma-separated");
  return unions;
}

/// Every kernel that an op with these options may prepare on a device of the target.
Result<std::vector<WarmRequest>> requests_for(const Runtime& runtime, const WarmOptions& options, const std::vector<Target>& targets,
                                              const std::vector<int>& heads, const std::vector<int>& unions) {
  std::vector<WarmRequest> requests;
  const auto add = [&](const char* name, Specialisation specialisation, const Target& target) {
    WarmRequest request;
    request.template_name = name;
    request.specialisation = std::move(specialisation);
    request.target = target;
    request.fall_backs = !options.no_fallbacks;
    const bool known = std::ranges::any_of(requests, [&](const WarmRequest& other) {
      return other.template_name == request.template_name && other.specialisation == request.specialisation &&
             other.target == request.target;
    });
    if (!known) requests.push_back(std::move(request));
  };
  for (const Target& target : targets) {
    for (const int head_count : heads) {
      SparseMlaPrefillOptions op;
      op.heads = head_count;
      for (const int word : unions) {
        int group = word;
        if (word == -1) {
          DeviceInfo device;  // Tables are asked for a device of which only the target is known.
          device.target = target;
          Result<UnionChoice> choice = choose_union(runtime.state(), op, device);
          if (!choice) return fail(std::move(choice.error()));
          group = choice->group_size;
        }
        if (group > 0) {
          add(kUnionBuildTemplate, Specialisation().set("group_size", group), target);
          add(kPrefillTemplate, prefill_specialisation(op, group), target);
        }
        // Where no tile of the union fits, the op goes on per token.
        if (group == 0 || !options.no_fallbacks) add(kPrefillTemplate, prefill_specialisation(op, 1), target);
      }
    }
  }
  return requests;
}

std::vector<WarmItemReport> warm_one(const Runtime& runtime, const WarmRequest& request) {
  std::vector<WarmItemReport> reports;
  const auto add = [&]() -> WarmItemReport& {
    WarmItemReport& report = reports.emplace_back();
    report.template_name = request.template_name;
    report.specialisation = request.specialisation.text();
    report.target = request.target.name();
    return report;
  };
  const Result<std::vector<WarmedItem>> items = runtime.warm(request);
  if (!items) {
    WarmItemReport& report = add();
    report.status = "failed";
    report.detail = items.error().text();
    return reports;
  }
  for (const WarmedItem& item : *items) {
    WarmItemReport& report = add();
    report.tile = item.tile.text();
    report.key = item.key;
    report.compile_ms = item.compile_ms;
    report.resources = item.resources;
    report.status = !item.error.empty() ? "failed" : !item.skipped.empty() ? "skipped" : item.cache == CacheSource::built ? "built" : "hit";
    report.detail = item.error + item.skipped;
  }
  return reports;
}

/// Every request, several at a time; the items in the requests' order.
std::vector<WarmItemReport> warm_all(const Runtime& runtime, const std::vector<WarmRequest>& requests, int jobs,
                                     support::Progress& progress) {
  std::vector<std::vector<WarmItemReport>> reports(requests.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < requests.size(); i = next.fetch_add(1)) {
      reports[i] = warm_one(runtime, requests[i]);
      progress.step(fmt::format("{} {} {}", requests[i].target.name(), requests[i].template_name, requests[i].specialisation.text()));
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < jobs && static_cast<std::size_t>(i) < requests.size(); ++i) helpers.emplace_back(work);
    work();
  }
  std::vector<WarmItemReport> all;
  for (std::vector<WarmItemReport>& one : reports) std::ranges::move(one, std::back_inserter(all));
  return all;
}

Result<WarmReport> warm_report(const WarmOptions& options) {
  Result<std::vector<Target>> targets = parse_targets(target_word(options.targets, ""));
  if (!targets) return fail(std::move(targets.error()));
  Result<std::vector<int>> heads = parse_heads(options.heads);
  if (!heads) return fail(std::move(heads.error()));
  Result<std::vector<int>> unions = parse_unions(options.unions);
  if (!unions) return fail(std::move(unions.error()));
  Result<Runtime> runtime = Runtime::create(runtime_options(options.output));
  if (!runtime) return fail(std::move(runtime.error()));
  Result<std::vector<WarmRequest>> requests = requests_for(*runtime, options, *targets, *heads, *unions);
  if (!requests) return fail(std::move(requests.error()));

  const int jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  support::Progress progress(support::progress_style(options.output.quiet), "warm", static_cast<std::int64_t>(requests->size()));
  WarmReport report;
  report.store = runtime->store_folder().string();
  const auto start = std::chrono::steady_clock::now();
  report.items = warm_all(*runtime, *requests, jobs, progress);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace

ExitCode warm(const WarmOptions& options) {
  const Result<WarmReport> report = warm_report(options);
  if (!report) return report_error(report.error());
  return finish(options.output.json ? json_of(*report) : text_of(*report), report->count("failed") > 0 ? ExitCode::wrong : ExitCode::done);
}

}  // namespace kernwright::tool
