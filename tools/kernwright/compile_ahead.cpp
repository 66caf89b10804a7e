#include "compile_ahead.hpp"

#include <set>

#include "prepare/candidates.hpp"
#include "prepare/work_pool.hpp"

namespace kernwright::tool {

CompileAhead::~CompileAhead() {
  end_compiles();
}

void CompileAhead::end_compiles() {
  if (!compiling_.joinable()) return;
  compiling_.request_stop();
  compiling_.join();
}

/// Empty where the store has it now.
std::optional<Error> CompileAhead::compile(const tuning::Task& task) const {
  Runtime::State& state = runtime_.state();
  auto specialised = specialise(state, task.subject.template_name, task.subject.specialisation);
  if (!specialised) return std::move(specialised.error());
  auto request = kernel_request(*specialised->definition, specialised->specialisation, task.tile, target_);
  if (!request) return std::move(request.error());
  Compiler& compiler = state.backend(target_.is_host() ? BackendKind::host : BackendKind::cuda)->compiler();
  // The table of plans that prepare asks for with this tile: compiled in the worker, it would count as a step of the measurement.
  auto plans = obtain_plans(state, *specialised->definition, specialised->specialisation, task.tile, target_, compiler);
  if (!plans) return std::move(plans.error());
  auto obtained = state.artifacts->get_or_build(*request, compiler);
  if (!obtained) return std::move(obtained.error());
  return std::nullopt;
}

void CompileAhead::expect(std::span<const tuning::Task> tasks) {
  end_compiles();
  inner_.expect(tasks);
  std::vector<tuning::Task> fresh;
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    for (const tuning::Task& task : tasks) {
      if (task.phase != tuning::Phase::search || compiled_.contains(task.words())) continue;
      waiting_[task.words()] = true;
      fresh.push_back(task);
    }
  }
  if (fresh.empty()) return;
  compiling_ = std::jthread([this, fresh = std::move(fresh)](const std::stop_token& stop) {
    run_jobs(
        jobs_, fresh.size(), [&] { return stop.stop_requested(); },
        [&](std::size_t i) {
          std::optional<Error> problem = compile(fresh[i]);
          const std::lock_guard lock(mutex_);
          compiled_[fresh[i].words()] = std::move(problem);
          waiting_.erase(fresh[i].words());
          changed_.notify_all();
        });
  });
}

Result<tuning::Measurement> CompileAhead::measure(const tuning::Task& task, std::span<const double> give_up_ms) {
  const std::string words = task.words();
  std::optional<Error> problem;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return first_all_ ? waiting_.empty() : !waiting_.contains(words); });
    if (const auto known = compiled_.find(words); known != compiled_.end()) problem = known->second;
  }
  if (!problem) return inner_.measure(task, give_up_ms);
  // Without a compiler, or with a store that nothing can be read from, every other kernel would end the same.
  if (problem->code == ErrorCode::compiler_unavailable || problem->code == ErrorCode::sealed_miss) return fail(std::move(*problem));
  const bool refused_by_compiler = problem->code == ErrorCode::compile_failed || problem->code == ErrorCode::timed_out;
  return tuning::Measurement{task, refused_by_compiler ? tuning::Outcome::not_built : tuning::Outcome::refused, problem->text(), {}};
}

}  // namespace kernwright::tool
