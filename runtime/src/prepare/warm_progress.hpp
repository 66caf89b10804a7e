// How far a warming has come, told to the caller's callback.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <string>

#include "kernwright/warming.hpp"
#include "platform/logger.hpp"

namespace kernwright {

/// Thread-safe: its members lock, and the callback runs under that lock.
class WarmTracker {
 public:
  WarmTracker(std::function<void(const WarmProgress&)> callback, Logger logger, int jobs);

  /// From here on `total` things of these costs together are counted.
  void begin_phase(bool planning, std::size_t total, double total_cost);
  /// Something is being worked on until the object goes.
  class Working {
   public:
    Working(WarmTracker& tracker, std::string what);
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    ~Working();

   private:
    WarmTracker& tracker_;
    std::list<std::string>::iterator place_;
  };
  /// One of the phase's things is done; `cost` as it was counted in the total, `seconds` what compiling it really took (0: it was there).
  /// `item` may be null.
  void done(double cost, double seconds, const WarmedItem* item);

 private:
  void tell(const WarmedItem* finished);  // under mutex_

  std::function<void(const WarmProgress&)> callback_;
  Logger logger_;
  int jobs_;
  std::mutex mutex_;
  bool planning_ = true;
  std::size_t done_ = 0, total_ = 0;
  double cost_done_ = 0, cost_total_ = 0, seconds_ = 0;
  std::list<std::string> working_;
};

}  // namespace kernwright
