// kernwright tune: from the words to the run and to what it prints.
#include "tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "output_file.hpp"
#include "platform/compile_jobs.hpp"
#include "support/number_list.hpp"
#include "target_choice.hpp"
#include "tune_json.hpp"
#include "tune_run.hpp"

namespace kernwright::tool {
namespace {

Result<std::vector<DeviceInfo>> devices_of(const Runtime& runtime, const TuneWords& words) {
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
    if (!device) return fail(std::move(device.error()).within("reading --devices"));
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

Result<tuning::ContestOptions> contest_of(const TuneWords& words, bool on_gpu) {
  auto kind = tuning::parse_strategy(words.strategy);
  if (!kind) return fail(std::move(kind.error()));
  tuning::ContestOptions contest;
  contest.strategy.kind = *kind;
  contest.strategy.seed = words.seed;
  if (words.budget) contest.strategy.budget = static_cast<std::size_t>(*words.budget);
  contest.rounds = words.rounds.value_or(on_gpu ? 5 : 3);
  return contest;
}

Result<TuneEnd> run(const TuneWords& words, const std::function<Result<TuneFamily>(const DeviceInfo&)>& make) {
  if (!words.report.empty()) {
    if (auto writable = check_writable("--report", words.report); !writable) return fail(std::move(writable.error()));
  }
  RuntimeOptions options = runtime_options(words.output, words.template_folder);
  const int jobs = words.jobs > 0 ? words.jobs : compile_jobs().count;
  options.compiles_at_once = jobs;
  auto runtime = Runtime::create(std::move(options));
  if (!runtime) return fail(std::move(runtime.error()));
  auto devices = devices_of(*runtime, words);
  if (!devices) return fail(std::move(devices.error()));
  const bool on_gpu = devices->front().id.backend == BackendKind::cuda;
  auto family = make(devices->front());
  if (!family) return fail(std::move(family.error()));
  auto contest = contest_of(words, on_gpu);
  if (!contest) return fail(std::move(contest.error()));
  if (runtime->store_folder().empty()) {
    return fail(ErrorCode::io, "there is no store that workers could read kernels from: set KERNWRIGHT_CACHE_DIR to a folder");
  }
  WorkerSetUp worker;
  worker.store = runtime->store_folder();
  worker.templates = words.template_folder;
  worker.family = family->name;
  worker.bench = family->bench;
  worker.seed = words.seed;
  worker.warm_ups = on_gpu ? 3 : 1;
  worker.repetitions = words.repetitions.value_or(on_gpu ? 15 : 3);
  std::string stem = family->name;  // sparse-mla is the family sparse_mla/ of templates
  std::ranges::replace(stem, '-', '_');
  const std::filesystem::path table = !words.out.empty() ? words.out : fmt::format("{}-{}.toml", stem, file_part(devices->front().name));
  const std::filesystem::path journal = !words.journal.empty() ? words.journal : table.string() + ".journal.jsonl";
  const std::array<OutputFile, 3> outputs{{{"--out", table}, {"--journal", journal}, {"--report", words.report}}};
  if (auto apart = require_apart(outputs); !apart) return fail(std::move(apart.error()));
  return run_tuning({words.output, *runtime, std::move(*devices), std::move(*family), std::move(worker), *contest, table, journal, jobs,
                     words.silence_seconds});
}

}  // namespace

ExitCode tune(const TuneWords& words, const std::function<Result<TuneFamily>(const DeviceInfo&)>& make) {
  const Result<TuneEnd> end = run(words, make);
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
