// Warm: compiles into the store what devices of the targets would ask for, without the devices.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "core/specialised_name.hpp"
#include "platform/compile_jobs.hpp"
#include "prepare/boundary.hpp"
#include "prepare/dispatcher.hpp"
#include "prepare/warm_cost.hpp"
#include "prepare/warm_progress.hpp"
#include "prepare/warm_tasks.hpp"
#include "prepare/work_pool.hpp"

namespace kernwright {
namespace {

constexpr int kMostJobs = 1024;

/// A task and what came of it, or a request that did not become one.
struct Part {
  std::optional<WarmTask> task;
  std::optional<PlannedTask> planned;
  std::optional<Error> error;
  WarmedItem blank;                  ///< An item with the request's words.
  std::vector<std::size_t> kernels;  ///< What it comes to.
};

/// One kernel that may have to be built. Several parts may come to the same.
struct KernelJob {
  const WarmTask* task;
  Candidate candidate;
  double cost;
  WarmedItem item;
  bool known = false;  ///< The item's outcome stands.
};

/// Kernels of which the first that fits is wanted: one where fall-backs are built too.
struct Chain {
  std::vector<std::size_t> kernels;
  double cost;
};

/// One call of warm. Planning, then building; both over the same pool of threads.
class Warming {
 public:
  Warming(Runtime::State& state, const WarmOptions& options, int jobs)
      : state_(state), options_(options), jobs_(jobs), tracker_(options.progress, state.logger, jobs) {}

  Result<WarmSummary> run(std::span<const WarmRequest> requests) {
    const auto started = std::chrono::steady_clock::now();
    const std::uint64_t warnings = state_.counters->store_warnings;
    collect(requests);
    plan();
    if (!fatal_) lay_out();
    if (!fatal_) build();
    refuse_what_fits_nowhere();
    if (fatal_) return fail(std::move(*fatal_));
    WarmSummary summary = sum_up();
    summary.not_stored = state_.counters->store_warnings - warnings;
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return summary;
  }

  /// Of the first request that failed as a whole.
  [[nodiscard]] const Error* request_error() const {
    const auto failed = std::ranges::find_if(parts_, [](const Part& part) { return part.error.has_value(); });
    return failed == parts_.end() ? nullptr : &*failed->error;
  }

 private:
  [[nodiscard]] bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed); }
  [[nodiscard]] bool stopped() {
    const std::lock_guard lock(mutex_);
    return cancelled() || fatal_.has_value();
  }
  /// A missing compiler ends the whole: every later item would say the same.
  bool is_fatal(const Error& error) {
    if (error.code != ErrorCode::compiler_unavailable) return false;
    const std::lock_guard lock(mutex_);
    if (!fatal_) fatal_ = error;
    return true;
  }

  void collect(std::span<const WarmRequest> requests) {
    std::set<std::string> known;
    for (const WarmRequest& request : requests) {
      WarmedItem blank;
      blank.template_name = request.template_name;
      blank.specialisation = request.specialisation;
      blank.target = request.target;
      auto tasks = tasks_of(state_, request);
      if (!tasks) {
        parts_.push_back({std::nullopt, std::nullopt, std::move(tasks.error()), std::move(blank), {}});
        continue;
      }
      for (WarmTask& task : *tasks) {
        if (!known.insert(task.words()).second) continue;
        blank.specialisation = task.specialisation;
        blank.target = task.target;
        parts_.push_back({std::move(task), std::nullopt, std::nullopt, blank, {}});
      }
    }
  }

  void plan() {
    std::vector<Part*> parts;
    for (Part& part : parts_) {
      if (part.task) parts.push_back(&part);
    }
    tracker_.begin_phase(true, parts.size(), static_cast<double>(parts.size()));
    run_jobs(
        jobs_, parts.size(), [&] { return stopped(); }, [&](std::size_t i) { plan_part(*parts[i]); });
  }

  void plan_part(Part& part) {
    double seconds = 0;
    {
      const WarmTracker::Working working(
          tracker_, fmt::format("{} {} {} plans", part.task->target.name(), part.blank.template_name, part.blank.specialisation.text()));
      const auto started = std::chrono::steady_clock::now();
      auto planned = plan_task(state_, *part.task);
      if (planned) {
        if (planned->plans_built) seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        part.planned = std::move(*planned);
      } else if (!is_fatal(planned.error())) {
        part.error = std::move(planned.error());
      }
    }
    tracker_.done(1, seconds, nullptr);
  }

  /// The index of the kernel, which may be another part's already.
  std::size_t kernel_of(const Part& part, const Candidate& candidate) {
    const std::string words = fmt::format("{}\n{}\n{}\n{}", part.blank.template_name, part.blank.specialisation.text(),
                                          part.blank.target.name(), candidate.tile.text());
    const auto [place, fresh] = kernel_by_words_.try_emplace(words, kernels_.size());
    if (fresh) {
      KernelJob& kernel = kernels_.emplace_back(KernelJob{&*part.task, candidate, compile_cost(candidate.tile), part.blank, false});
      kernel.item.tile = candidate.tile;
      kernel.item.plan = candidate.plan;
    }
    return place->second;
  }

  void lay_out() {
    for (Part& part : parts_) {
      if (!part.planned) continue;
      Chain chain;
      for (const Candidate& candidate : part.planned->candidates) {
        std::string over = over_limit(candidate.plan, part.task->limits);
        // Behind the first that fits nothing is looked at, unless that one turns out not to fit.
        if (!over.empty() && !chain.kernels.empty()) continue;
        const std::size_t index = kernel_of(part, candidate);
        part.kernels.push_back(index);
        if (!over.empty()) {
          settle(kernels_[index], WarmOutcome::skipped, std::move(over));
        } else if (!part.task->fall_backs) {
          chain.kernels.push_back(index);
        } else if (alone_.insert(index).second) {
          chains_.push_back({{index}, kernels_[index].cost});
        }
      }
      if (!chain.kernels.empty()) {
        chain.cost = kernels_[chain.kernels.front()].cost;
        chains_.push_back(std::move(chain));
      }
    }
    std::ranges::stable_sort(chains_, std::greater<>{}, &Chain::cost);
  }

  void build() {
    const double cost =
        std::accumulate(chains_.begin(), chains_.end(), 0.0, [](double sum, const Chain& chain) { return sum + chain.cost; });
    tracker_.begin_phase(false, chains_.size(), cost);
    run_jobs(
        jobs_, chains_.size(), [&] { return stopped(); }, [&](std::size_t i) { build_chain(chains_[i]); });
  }

  void build_chain(const Chain& chain) {
    ++begun_;
    for (const std::size_t index : chain.kernels) {
      KernelJob& kernel = kernels_[index];
      auto obtained = obtain(kernel);
      if (!obtained && is_fatal(obtained.error())) return;
      if (!obtained && obtained.error().code == ErrorCode::does_not_fit) {
        settle(kernel, WarmOutcome::skipped, obtained.error().text());
        if (index != chain.kernels.back()) continue;
      } else if (!obtained) {
        settle(kernel, WarmOutcome::failed, obtained.error().text());
      } else {
        settle(kernel, *obtained);
      }
      const WarmedItem item = copy_of(kernel);
      tracker_.done(chain.cost, item.outcome == WarmOutcome::built ? item.compile_ms / 1e3 : 0, &item);
      return;
    }
  }

  /// A prepare would answer does_not_fit as well.
  void refuse_what_fits_nowhere() {
    for (Part& part : parts_) {
      std::string reasons;
      const bool none = std::ranges::all_of(part.kernels, [&](std::size_t i) {
        const WarmedItem& item = kernels_[i].item;
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", item.tile.text(), item.reason);
        return kernels_[i].known && item.outcome == WarmOutcome::skipped;
      });
      if (!part.planned || !none) continue;
      part.error = Error{ErrorCode::does_not_fit,
                         fmt::format("no tile of {} fits {}: {}", specialised_name(part.blank.template_name, part.blank.specialisation),
                                     part.task->limits.owner, reasons),
                         {}};
    }
  }

  Result<Obtained> obtain(const KernelJob& kernel) {
    const WarmTask& task = *kernel.task;
    const WarmTracker::Working working(tracker_, fmt::format("{} {} {} {}", task.target.name(), task.definition->manifest.name,
                                                             task.specialisation.text(), kernel.candidate.tile.text()));
    auto request = kernel_request(*task.definition, task.specialisation, kernel.candidate.tile, task.target);
    if (!request) return fail(std::move(request.error()));
    Compiler& compiler = state_.backend(task.target.is_host() ? BackendKind::host : BackendKind::cuda)->compiler();
    return state_.artifacts->get_or_build(*request, compiler);
  }

  void settle(KernelJob& kernel, WarmOutcome outcome, std::string reason) {
    const std::lock_guard lock(mutex_);
    if (kernel.known) return;
    kernel.known = true;
    kernel.item.outcome = outcome;
    kernel.item.reason = std::move(reason);
  }

  /// Where two parts come to one kernel, having it outweighs having skipped it, and having compiled it a hit.
  void settle(KernelJob& kernel, const Obtained& obtained) {
    const std::lock_guard lock(mutex_);
    if (kernel.known && !kernel.item.key.empty() && obtained.source != CacheSource::built) return;
    kernel.known = true;
    kernel.item.outcome = obtained.source == CacheSource::built ? WarmOutcome::built : WarmOutcome::hit;
    kernel.item.reason.clear();
    kernel.item.key = obtained.artifact->key.hex();
    kernel.item.cache = obtained.source;
    kernel.item.compile_ms = obtained.compile_ms;
    kernel.item.resources = obtained.artifact->resources;
  }

  WarmedItem copy_of(const KernelJob& kernel) {
    const std::lock_guard lock(mutex_);
    return kernel.item;
  }

  WarmSummary sum_up() {
    WarmSummary summary;
    summary.jobs = jobs_;
    std::map<EntryKey, bool> plans;  // built by this call?
    std::size_t unplanned = 0;
    for (const Part& part : parts_) {
      if (part.error) {
        WarmedItem& item = summary.items.emplace_back(part.blank);
        item.reason = part.error->text();
      }
      if (part.planned) {
        plans[part.planned->plans] |= part.planned->plans_built;
      } else if (!part.error) {
        ++unplanned;
      }
    }
    for (KernelJob& kernel : kernels_) {
      if (kernel.known) summary.items.push_back(std::move(kernel.item));
    }
    for (const WarmedItem& item : summary.items) {
      switch (item.outcome) {
        case WarmOutcome::built: ++summary.built; break;
        case WarmOutcome::hit: ++summary.hit; break;
        case WarmOutcome::skipped: ++summary.skipped; break;
        case WarmOutcome::failed: ++summary.failed; break;
      }
    }
    for (const auto& [key, built] : plans) ++(built ? summary.plans_built : summary.plans_hit);
    summary.not_begun = chains_.size() - begun_;
    summary.cancelled = summary.not_begun > 0 || unplanned > 0;
    return summary;
  }

  Runtime::State& state_;
  const WarmOptions& options_;
  int jobs_;
  WarmTracker tracker_;
  std::vector<Part> parts_;
  std::vector<KernelJob> kernels_;
  std::map<std::string, std::size_t> kernel_by_words_;
  std::set<std::size_t> alone_;  ///< Kernels that are chains of their own.
  std::vector<Chain> chains_;
  std::atomic<std::size_t> begun_{0};
  std::mutex mutex_;
  std::optional<Error> fatal_;  ///< Under mutex_, as are the kernels' items once threads run.
};

}  // namespace

std::string_view to_string(WarmOutcome outcome) noexcept {
  switch (outcome) {
    case WarmOutcome::built: return "built";
    case WarmOutcome::hit: return "hit";
    case WarmOutcome::skipped: return "skipped";
    case WarmOutcome::failed: return "failed";
  }
  return "unknown";
}

Result<std::vector<WarmedItem>> warm_template(Runtime::State& state, const WarmRequest& request) {
  const WarmOptions options;
  Warming warming(state, options, 1);
  auto summary = warming.run({&request, 1});
  if (!summary) return fail(std::move(summary.error()));
  if (const Error* error = warming.request_error()) return fail(Error(*error));
  return std::move(summary->items);
}

Result<WarmSummary> Runtime::warm_all(std::span<const WarmRequest> requests, const WarmOptions& options) const {
  return without_exceptions([&]() -> Result<WarmSummary> {
    if (options.jobs < 0 || options.jobs > kMostJobs) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("jobs is {}; legal are 0 (as many as cores and memory allow) to {}", options.jobs, kMostJobs));
    }
    const int jobs = options.jobs > 0 ? options.jobs : state_->budget->at_once();
    return Warming(*state_, options, jobs).run(requests);
  });
}

}  // namespace kernwright
