#include "tune_run.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

#include "backend/cuda/diagnosis.hpp"
#include "compile_ahead.hpp"
#include "interruption.hpp"
#include "output_file.hpp"
#include "platform/file_system.hpp"
#include "prepare/options.hpp"
#include "search/journal.hpp"
#include "search/journaled_measurer.hpp"
#include "search/worker_measurer.hpp"
#include "support/format.hpp"
#include "support/progress.hpp"

namespace kernwright::tool {
namespace {

using tuning::Json;
using tuning::Measurement;

/// One subject, ready to be searched.
struct Prepared {
  tuning::SearchSpace space;
  std::vector<Tile> tiles;
  Tile default_tile;
  std::string digest;
};

/// Bars and lines with the time left, from several lanes.
class TuneProgress {
 public:
  TuneProgress(const OutputOptions& output, std::size_t total)
      : progress_(support::progress_style(output.quiet), "tune", static_cast<std::int64_t>(total)), total_(total) {}

  void told(const Measurement& measurement, bool resumed) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (resumed) {
      ++resumed_;
      return;
    }
    const std::size_t measured = done_ - resumed_;
    const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count() / static_cast<double>(measured);
    const std::size_t left = total_ > done_ ? total_ - done_ : 0;
    const std::string outcome = measurement.outcome == tuning::Outcome::measured ? support::format_milliseconds(score(measurement))
                                                                                 : std::string(to_string(measurement.outcome));
    const std::string text =
        fmt::format("{} {} {}: {}, at most {} left", measurement.task.subject.specialisation.text(), measurement.task.tile.text(),
                    to_string(measurement.task.phase), outcome, support::format_duration(each * static_cast<double>(left)));
    progress_.show(static_cast<std::int64_t>(done_), static_cast<std::int64_t>(total_), text);
    progress_.say(fmt::format("{}/{} {}", done_, total_, text));
  }
  void note(std::string_view line) { progress_.note(line); }
  [[nodiscard]] std::size_t resumed() const { return resumed_; }
  [[nodiscard]] std::size_t measured() const { return done_ - resumed_; }

 private:
  std::mutex mutex_;
  support::Progress progress_;
  const std::size_t total_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::size_t done_ = 0, resumed_ = 0;
};

/// What measures on one device: the journal in front of the compiler in front of a worker.
struct Lane {
  Lane(const TuneSettings& settings, const DeviceInfo& device, const WorkerSetUp& set_up, tuning::Journal& journal,
       const std::atomic<bool>& cancel, TuneProgress& progress)
      : worker({{"/proc/self/exe", {kTuneWorker}}, json_of(set_up), settings.silence_seconds}),
        compiling(settings.runtime, device.target, settings.jobs, device.id.backend == BackendKind::host, worker),
        measurer(compiling, journal, &cancel, [&progress](const Measurement& each, bool resumed) { progress.told(each, resumed); }) {}
  tuning::WorkerMeasurer worker;
  CompileAhead compiling;
  tuning::JournaledMeasurer measurer;
};

class TuneRun {
 public:
  explicit TuneRun(const TuneSettings& settings) : settings_(settings) {}

  Result<TuneEnd> run() {
    const auto started = std::chrono::steady_clock::now();
    if (auto writable = check_writable("--out", settings_.table); !writable) return fail(std::move(writable.error()));
    if (auto writable = require_folder("--journal", settings_.journal); !writable) return fail(std::move(writable.error()));
    if (auto prepared = prepare(); !prepared) return fail(std::move(prepared.error()));
    auto journal = tuning::Journal::open(settings_.journal, identity(), now());
    if (!journal) return fail(std::move(journal.error()));
    report_.origin.date = (*journal)->date();
    const auto references = std::filesystem::path(settings_.journal.string() + ".references");
    std::error_code ignored;
    if ((*journal)->resumed() == 0) std::filesystem::remove_all(references, ignored);  // another run's
    if (auto made = FileSystem::posix()->create_folders(references, 0755); !made) return fail(std::move(made.error()));

    TuneProgress progress(settings_.output, most_measurements());
    const Interruption interruption([&] {
      if (!settings_.output.quiet) progress.note("kernwright: stopping: the kernel in hand is finished first; once more ends it at once");
    });
    WarmOptions warming;
    warming.jobs = settings_.jobs;
    if (auto warmed = settings_.runtime.warm_all(settings_.family.companions, warming); !warmed) return fail(std::move(warmed.error()));
    std::vector<std::unique_ptr<Lane>> lanes;
    for (const DeviceInfo& device : settings_.devices) {
      WorkerSetUp set_up = settings_.worker;
      set_up.device = device.id;
      set_up.references = references;
      lanes.push_back(std::make_unique<Lane>(settings_, device, set_up, **journal, interruption.flag(), progress));
    }
    Result<> done = hold_contests(lanes);
    if (done) done = hold_choices(lanes.front()->measurer);
    report_.resumed = progress.resumed();
    report_.measured = progress.measured();
    for (const auto& lane : lanes) report_.worker_starts += lane->worker.starts();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (!done && interruption.flag()) return TuneEnd{std::move(report_), interruption.signal()};
    if (!done) return fail(std::move(done.error()));
    std::filesystem::remove_all(references, ignored);
    if (auto written = write_table(); !written) return fail(std::move(written.error()));
    return TuneEnd{std::move(report_), 0};
  }

 private:
  static std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

  Result<> prepare() {
    const DeviceInfo& device = settings_.devices.front();
    Runtime::State& state = settings_.runtime.state();
    for (const tuning::Subject& subject : settings_.family.subjects) {
      auto specialised = specialise(state, subject.template_name, subject.specialisation);
      if (!specialised) return fail(std::move(specialised.error()));
      auto space = tuning::search_space(state, *specialised, device);
      if (!space) return fail(std::move(space.error()).within(subject.text()));
      auto standing = tuning::default_tile(*space, specialised->definition->manifest, device.target);
      if (!standing) return fail(std::move(standing.error()).within(subject.text()));
      Prepared prepared{std::move(*space), {}, std::move(*standing), specialised->definition->digest};
      for (const Candidate& point : prepared.space.points) prepared.tiles.push_back(point.tile);
      prepared_.push_back(std::move(prepared));
    }
    report_.origin.device = device;
    report_.origin.shapes = settings_.family.shapes;
    auto compiler = state.backend(device.id.backend)->compiler().identity();
    if (!compiler) return fail(std::move(compiler.error()));
    report_.origin.compiler = compiler->name + " " + compiler->version.substr(0, compiler->version.find('\n'));
    if (device.id.backend == BackendKind::cuda) report_.origin.driver = diagnose_cuda(state.options).driver_version;
    report_.family = settings_.family.name;
    report_.comparison = settings_.family.comparison;
    report_.strategy = to_string(settings_.contest.strategy.kind);
    report_.seed = settings_.contest.strategy.seed;
    report_.repetitions = settings_.worker.repetitions;
    report_.warm_ups = settings_.worker.warm_ups;
    report_.rounds = settings_.contest.rounds;
    report_.journal = settings_.journal;
    report_.subjects.resize(prepared_.size());
    return {};
  }

  /// Everything that a measurement or a decision depends on.
  [[nodiscard]] Json identity() const {
    Json subjects = Json::array();
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      subjects.push_back(settings_.family.subjects[i].text() + " " + prepared_[i].digest);
    }
    const tuning::StrategyOptions& strategy = settings_.contest.strategy;
    const tuning::Origin& origin = report_.origin;
    Json run{{"family", settings_.family.name},       {"device", origin.device.name},
             {"target", origin.device.target.name()}, {"driver", origin.driver},
             {"compiler", origin.compiler},           {"subjects", std::move(subjects)},
             {"shapes", settings_.family.shapes},     {"seed", strategy.seed},
             {"strategy", to_string(strategy.kind)},  {"repetitions", settings_.worker.repetitions},
             {"warm_ups", settings_.worker.warm_ups}, {"rounds", settings_.contest.rounds}};
    // A file of the same name may be another one by the time an interrupted run goes on.
    if (!settings_.family.input_digests.empty()) run["input_digests"] = settings_.family.input_digests;
    if (strategy.budget) run["budget"] = *strategy.budget;
    run.update(settings_.family.conditions);
    return run;
  }

  [[nodiscard]] std::size_t most_measurements() const {
    std::size_t most = 0;
    for (const Prepared& each : prepared_) most += tuning::most_measurements(each.tiles.size(), settings_.contest);
    for (const TuneFamily::Choice& choice : settings_.family.choices) {
      most += choice.subjects.size() * static_cast<std::size_t>(settings_.contest.rounds);
    }
    return most;
  }

  Result<> hold_contests(const std::vector<std::unique_ptr<Lane>>& lanes) {
    std::mutex mutex;
    std::size_t next = 0;
    std::optional<Error> first_error;
    const auto work = [&](Lane& lane) {
      for (;;) {
        std::size_t i = 0;
        {
          const std::lock_guard lock(mutex);
          if (first_error || next >= prepared_.size()) return;
          i = next++;
        }
        auto contest = tuning::hold_contest(settings_.family.subjects[i], prepared_[i].tiles, prepared_[i].default_tile, settings_.contest,
                                            lane.measurer);
        const std::lock_guard lock(mutex);
        if (!contest) {
          if (!first_error) first_error = std::move(contest.error());
          return;
        }
        const tuning::SearchSpace& space = prepared_[i].space;
        report_.subjects[i] = {std::move(*contest), prepared_[i].digest, space.offered,
                               space.illegal,       space.over_limits,   space.points.size()};
      }
    };
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < lanes.size(); ++i) others.emplace_back([&work, lane = lanes[i].get()] { work(*lane); });
      work(*lanes.front());
    }
    if (first_error) return fail(std::move(*first_error));
    return {};
  }

  /// The winners for several values of a parameter against each other.
  Result<> hold_choices(tuning::Measurer& measurer) {
    for (const TuneFamily::Choice& choice : settings_.family.choices) {
      TunedParameter tuned{choice, {}, {}};
      std::optional<std::size_t> standing;
      // A value that was not compared with the default's must not replace it.
      const bool comparable = std::ranges::any_of(choice.subjects, [&](std::size_t i) {
        return settings_.family.subjects[i].specialisation.get(choice.parameter) == ParameterValue(choice.default_value);
      });
      if (!comparable) continue;
      for (const std::size_t i : choice.subjects) {
        const tuning::Contest& contest = report_.subjects[i].contest;
        const Tile* const tile = contest.tile();
        if (tile == nullptr) continue;
        if (contest.subject.specialisation.get(choice.parameter) == ParameterValue(choice.default_value)) standing = tuned.finalists.size();
        tuned.finalists.push_back({contest.subject, *tile, {}, 0, 0, {}});
      }
      if (tuned.finalists.size() > 1) {
        auto decision = tuning::play(tuned.finalists, standing, tuning::Phase::choice, settings_.contest, measurer);
        if (!decision) return fail(std::move(decision.error()));
        tuned.decision = std::move(*decision);
        report_.parameters.push_back(std::move(tuned));
      }
    }
    return {};
  }

  Result<> write_table() {
    std::vector<tuning::TunedTile> tiles;
    for (const TunedSubject& subject : report_.subjects) {
      const tuning::Contest& contest = subject.contest;
      if (contest.tile() == nullptr) continue;
      const bool compared = contest.finalists.front().tile == contest.default_tile && contest.finalists.front().failure.empty();
      tiles.push_back({contest.subject, subject.digest, *contest.tile(),
                       compared ? std::optional<Tile>(contest.default_tile) : std::nullopt, contest.decision.gain, contest.decision.noise,
                       contest.finalists[*contest.decision.winner].clocks.text()});
    }
    if (tiles.empty()) return {};
    std::vector<tuning::TunedChoice> choices;
    for (const TunedParameter& tuned : report_.parameters) {
      if (!tuned.decision.winner) continue;
      const tuning::Subject& winner = tuned.finalists[*tuned.decision.winner].subject;
      const auto value = winner.specialisation.get(tuned.choice.parameter);
      const std::string& digest = report_.subjects[tuned.choice.subjects.front()].digest;
      choices.push_back({winner.template_name, tuned.choice.known, digest, tuned.choice.parameter,
                         value && std::holds_alternative<std::int64_t>(*value) ? std::get<std::int64_t>(*value) : 0, tuned.decision.gain,
                         tuned.decision.noise, tuned.finalists[*tuned.decision.winner].clocks.text()});
    }
    const std::string text = write_tuning_table(report_.origin, tiles, choices);
    if (auto written = FileSystem::posix()->publish(settings_.table, as_bytes(text)); !written) return written;
    report_.table = settings_.table;
    return {};
  }

  const TuneSettings& settings_;
  std::vector<Prepared> prepared_;
  TuneReport report_;
};

}  // namespace

Result<TuneEnd> run_tuning(const TuneSettings& settings) {
  return TuneRun(settings).run();
}

}  // namespace kernwright::tool
