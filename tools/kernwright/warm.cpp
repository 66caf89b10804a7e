#include "warm.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "interruption.hpp"
#include "launch_list/launch_list.hpp"
#include "platform/compile_jobs.hpp"
#include "platform/file_system.hpp"
#include "reports.hpp"
#include "support/progress.hpp"
#include "support/warm_text.hpp"
#include "warm_requests.hpp"
#include "warm_targets.hpp"

namespace kernwright::tool {
namespace {

constexpr double kRemoteSeconds = 30;  // for what the remote cache has not taken yet

/// Of this process and of the compilers that it started and has waited for, user and system.
double cpu_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(who, &usage) != 0) continue;
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    }
  }
  return seconds;
}

CompileJobs jobs_of(const WarmWords& words) {
  return words.jobs > 0 ? CompileJobs{words.jobs, "--jobs"} : compile_jobs();
}

Result<Runtime> open_runtime(const WarmWords& words, int jobs) {
  RuntimeOptions options = runtime_options(words.output, words.template_folder);
  options.compiles_at_once = jobs;
  return Runtime::create(std::move(options));
}

/// The requests as a launch list; equal ones become one.
LaunchList list_of(const std::vector<WarmRequest>& requests) {
  LaunchList list;
  for (const WarmRequest& request : requests) {
    list.launches.push_back({request.template_name, request.specialisation, {request.target}, request.tile, request.fall_backs, 0});
  }
  return list;
}

ExitCode write_requests(const std::vector<WarmRequest>& requests, const std::string& file) {
  Result<std::string> text = write_launch_list(list_of(requests));
  if (!text) return report_error(text.error());
  if (file == "-") return finish(*text, ExitCode::done);
  Result<> written = FileSystem::posix()->publish(file, as_bytes(*text));
  return written ? finish(fmt::format("launch list written: {}\n", file), ExitCode::done) : report_error(written.error());
}

Result<WarmReport> run(const Runtime& runtime, const WarmWords& words, const CompileJobs& jobs, WarmSelection selection) {
  WarmReport report;
  report.store = runtime.store_folder().string();
  if (report.store.empty()) {
    return fail(ErrorCode::io, "there is no store to warm: none of KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME, HOME and TMPDIR gives a folder");
  }
  report.list = std::move(selection.description);
  report.jobs_reason = jobs.reason;
  support::Progress progress(support::progress_style(words.output.quiet), "warm", 0);
  const Interruption interruption([&] {
    if (!words.output.quiet) progress.note("kernwright: stopping: what is compiling is finished first; once more ends it at once");
  });
  WarmOptions options;
  options.jobs = jobs.count;
  options.cancel = &interruption.flag();
  options.progress = [&](const WarmProgress& now) {
    progress.show(static_cast<std::int64_t>(now.done), static_cast<std::int64_t>(now.total), support::warm_bar_detail(now));
    if (const std::string line = support::warm_line(now); !line.empty()) progress.say(line);
  };
  const double before = cpu_seconds();
  Result<WarmSummary> summary = runtime.warm_all(selection.requests, options);
  if (!summary) return fail(std::move(summary.error()));
  report.summary = std::move(*summary);
  report.cpu_seconds = cpu_seconds() - before;
  runtime.flush_remote(kRemoteSeconds);
  report.signal = report.summary.cancelled ? interruption.signal() : 0;
  return report;
}

ExitCode outcome_of(const WarmReport& report) {
  if (report.signal != 0) return report.signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
  if (report.summary.failed > 0) return ExitCode::wrong;
  return report.summary.not_stored > 0 ? ExitCode::unable : ExitCode::done;
}

}  // namespace

ExitCode warm(const WarmWords& words) {
  const CompileJobs jobs = jobs_of(words);
  const Result<Runtime> runtime = open_runtime(words, jobs.count);
  if (!runtime) return report_error(runtime.error());
  Result<WarmSelection> selection = select_requests(*runtime, words);
  if (!selection) return report_error(selection.error());
  if (const Result<> checked = check_targets(*runtime, selection->requests); !checked) return report_error(checked.error());
  for (const std::string& line : target_notes(*runtime, selection->requests)) note(words.output, line);
  if (!words.write_list.empty()) return write_requests(selection->requests, words.write_list);
  const Result<WarmReport> report = run(*runtime, words, jobs, std::move(*selection));
  if (!report) return report_error(report.error());
  return finish(words.output.json ? json_of(*report) : text_of(*report), outcome_of(*report));
}

}  // namespace kernwright::tool
