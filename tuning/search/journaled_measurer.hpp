// Measures what the journal does not have, and writes it there.
#pragma once

#include <atomic>
#include <functional>

#include "search/contest.hpp"
#include "search/journal.hpp"

namespace kernwright::tuning {

class JournaledMeasurer final : public Measurer {
 public:
  /// Called behind each measurement; `resumed`: it was in the journal.
  using Told = std::function<void(const Measurement&, bool resumed)>;
  /// `cancel` may be null; once it is true nothing more is begun, and the answer is the error cancelled(). All outlive the object.
  JournaledMeasurer(Measurer& inner, Journal& journal, const std::atomic<bool>* cancel, Told told)
      : inner_(inner), journal_(journal), cancel_(cancel), told_(std::move(told)) {}

  void expect(std::span<const Task> tasks) override {
    std::vector<Task> left;
    for (const Task& task : tasks) {
      if (journal_.find(task) == nullptr) left.push_back(task);
    }
    if (!left.empty()) inner_.expect(left);
  }

  Result<Measurement> measure(const Task& task, std::span<const double> give_up_ms) override {
    if (const Measurement* known = journal_.find(task)) {
      told_(*known, true);
      return *known;
    }
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return fail(cancelled());
    auto measured = inner_.measure(task, give_up_ms);
    if (!measured) return measured;
    if (auto written = journal_.append(*measured); !written) return fail(std::move(written.error()));
    told_(*measured, false);
    return measured;
  }

  static Error cancelled() { return {ErrorCode::unsupported, "interrupted", {}}; }

 private:
  Measurer& inner_;
  Journal& journal_;
  const std::atomic<bool>* cancel_;
  Told told_;
};

}  // namespace kernwright::tuning
