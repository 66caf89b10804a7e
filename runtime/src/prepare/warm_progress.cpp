#include "prepare/warm_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace kernwright {

WarmTracker::WarmTracker(std::function<void(const WarmProgress&)> callback, Logger logger, int jobs)
    : callback_(std::move(callback)), logger_(std::move(logger)), jobs_(std::max(jobs, 1)) {}

void WarmTracker::begin_phase(bool planning, std::size_t total, double total_cost) {
  const std::lock_guard lock(mutex_);
  planning_ = planning;
  done_ = 0;
  total_ = total;
  cost_done_ = 0;
  cost_total_ = total_cost;
  seconds_ = 0;
}

WarmTracker::Working::Working(WarmTracker& tracker, std::string what) : tracker_(tracker) {
  const std::lock_guard lock(tracker_.mutex_);
  place_ = tracker_.working_.insert(tracker_.working_.end(), std::move(what));
  tracker_.tell(nullptr);
}

WarmTracker::Working::~Working() {
  const std::lock_guard lock(tracker_.mutex_);
  tracker_.working_.erase(place_);
}

void WarmTracker::done(double cost, double seconds, const WarmedItem* item) {
  const std::lock_guard lock(mutex_);
  ++done_;
  cost_done_ += cost;
  seconds_ += seconds;
  tell(item);
}

void WarmTracker::tell(const WarmedItem* finished) {
  if (!callback_) return;
  WarmProgress progress;
  progress.planning = planning_;
  progress.done = done_;
  progress.total = total_;
  progress.compiling.assign(working_.begin(), working_.end());
  // Hits cost nothing and so lower the scale: what is left is taken to hit as often as what is done.
  if (seconds_ > 0 && cost_done_ > 0) {
    progress.seconds_left = std::max(0.0, cost_total_ - cost_done_) * (seconds_ / cost_done_) / jobs_;
  }
  progress.finished = finished;
  try {
    callback_(progress);
  } catch (const std::exception& thrown) {
    logger_(LogLevel::warn, fmt::format("warm: the progress callback threw: {}", thrown.what()));
  } catch (...) {
    logger_(LogLevel::warn, "warm: the progress callback threw");
  }
}

}  // namespace kernwright
