// kernwright tune sparse-mla: what the family is, from the words.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <limits>

#include "key/key.hpp"
#include "ops/sparse_mla_options.hpp"
#include "platform/compile_jobs.hpp"
#include "platform/file_system.hpp"
#include "sparse_mla_words.hpp"
#include "support/format.hpp"
#include "support/number_list.hpp"
#include "target_choice.hpp"
#include "tune.hpp"
#include "tune_json.hpp"
#include "tune_run.hpp"

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
    if (!content) return fail(Error(content.error()).within("--input " + file));
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
  family.name = "sparse-mla";
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
  return family;
}

Result<std::vector<DeviceInfo>> devices_of(const Runtime& runtime, const TuneSparseMlaWords& words) {
  if (words.devices.empty()) {
    auto chosen = choose_device(runtime, target_word(words.target, "auto"));
    if (!chosen) return fail(std::move(chosen.error()));
    if (!chosen->note.empty()) note(words.output, chosen->note);
    return std::vector<DeviceInfo>{std::move(chosen->device)};
  }
  const auto numbers = support::parse_numbers("--devices", words.devices, 0, 1023);
  if (!numbers) return fail(Error(numbers.error()));
  std::vector<DeviceInfo> devices;
  for (const int number : *numbers) {
    auto device = runtime.device(DeviceId::cuda(number));
    if (!device) return fail(std::move(device.error()).within("--devices"));
    if (!devices.empty() && (devices.front().name != device->name || devices.front().target != device->target)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--devices {}: {} is a {} and {} a {}; one table is for one kind of device", words.devices,
                              devices.front().id.ordinal, devices.front().name, number, device->name));
    }
    devices.push_back(std::move(*device));
  }
  return devices;
}

/// "NVIDIA H200" becomes NVIDIA-H200.
std::string file_part(std::string name) {
  constexpr std::string_view kept = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.";
  std::ranges::replace_if(
      name, [&](char c) { return kept.find(c) == std::string_view::npos; }, '-');
  return name;
}

Result<tuning::ContestOptions> contest_of(const TuneSparseMlaWords& words, bool on_gpu) {
  auto kind = tuning::parse_strategy(words.strategy);
  if (!kind) return fail(std::move(kind.error()));
  tuning::ContestOptions contest;
  contest.strategy.kind = *kind;
  contest.strategy.seed = words.points.seed;
  if (words.budget) contest.strategy.budget = static_cast<std::size_t>(*words.budget);
  contest.rounds = words.rounds.value_or(on_gpu ? 5 : 3);
  return contest;
}

Result<TuneEnd> tune(TuneSparseMlaWords words) {
  if (!words.report.empty()) {
    if (auto writable = check_writable("--report", words.report); !writable) return fail(std::move(writable.error()));
  }
  RuntimeOptions options = runtime_options(words.output);
  if (!words.template_folder.empty()) options.template_folder = words.template_folder;
  const int jobs = words.jobs > 0 ? words.jobs : compile_jobs().count;
  options.compiles_at_once = jobs;
  auto runtime = Runtime::create(std::move(options));
  if (!runtime) return fail(std::move(runtime.error()));
  auto devices = devices_of(*runtime, words);
  if (!devices) return fail(std::move(devices.error()));
  const bool on_gpu = devices->front().id.backend == BackendKind::cuda;
  if (words.points.churns.empty()) words.points.churns = kDefaultChurn;
  words.points.spread_rows = 0;
  auto family = family_of(words, devices->front());
  if (!family) return fail(std::move(family.error()));
  auto contest = contest_of(words, on_gpu);
  if (!contest) return fail(std::move(contest.error()));
  if (runtime->store_folder().empty()) {
    return fail(ErrorCode::io, "there is no store that workers could read kernels from: set KERNWRIGHT_CACHE_DIR to a folder");
  }
  WorkerSetUp worker;
  worker.store = runtime->store_folder();
  worker.templates = words.template_folder;
  worker.points = words.points;
  worker.warm_ups = on_gpu ? 3 : 1;
  worker.repetitions = words.repetitions.value_or(on_gpu ? 15 : 3);
  const std::filesystem::path table = !words.out.empty() ? words.out : fmt::format("sparse_mla-{}.toml", file_part(devices->front().name));
  const std::filesystem::path journal = !words.journal.empty() ? words.journal : table.string() + ".journal.jsonl";
  return run_tuning({words.output, *runtime, std::move(*devices), std::move(*family), std::move(worker), *contest, table, journal, jobs,
                     words.silence_seconds});
}

}  // namespace

ExitCode tune_sparse_mla(const TuneSparseMlaWords& words) {
  const Result<TuneEnd> end = tune(words);
  if (!end) return report_error(end.error());
  if (end->signal != 0) {
    note(words.output, fmt::format("{} measurements are in {}; the same words go on from there", end->report.resumed + end->report.measured,
                                   end->report.journal.string()));
    return end->signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
  }
  if (!words.report.empty()) {
    if (const auto written = write_page(words.report, html_of(end->report)); !written) return report_error(written.error());
  }
  const bool all = std::ranges::all_of(end->report.subjects, [](const TunedSubject& each) { return each.contest.tile() != nullptr; });
  return finish(words.output.json ? json_of(end->report) : text_of(end->report), all ? ExitCode::done : ExitCode::wrong);
}

}  // namespace kernwright::tool
