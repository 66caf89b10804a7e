// Times operations of microseconds: many back to back between two events, so that no launch waits for the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernwright/runtime.hpp"
#include "search/clock_watch.hpp"

namespace kernwright::tool {

struct BatchTimingOptions {
  int warm_ups = 3;         ///< Batches.
  int repetitions = 15;     ///< Batches.
  double batch_us = 5'000;  ///< What a batch takes at least, by as many operations as that needs.
  int most_operations = 1'000;
  bool graph = false;                   ///< A batch is captured once and replayed, as a served decode is: no launch costs the CPU anything.
  double give_up_us = 0;                ///< Not 0: left as soon as two batches were made and an operation of both took longer.
  tuning::ClockWatch* clock = nullptr;  ///< Sampled before the first repetition and behind each one.
};
struct BatchTiming {
  int operations = 0;           ///< In a batch.
  std::vector<double> each_us;  ///< Of each batch: its time by its operations.
  bool given_up = false;        ///< Then batches of warm-ups may be among each_us.
};
/// Enqueues operation `i`; i counts up over all batches, so that inputs can be rotated.
using EnqueueOperation = std::function<Result<>(std::int64_t i, StreamHandle stream)>;
Result<BatchTiming> time_batches(const Runtime& runtime, DeviceId device, const EnqueueOperation& enqueue,
                                 const BatchTimingOptions& options);

/// What a copy within the device's memory sustains, in TB/s of bytes read and written, one value a repetition: `size` bytes from one buffer
/// to another by the driver's own copy (memcpy on host).
Result<std::vector<double>> measured_copy_tbps(const Runtime& runtime, DeviceId device, Bytes size, const BatchTimingOptions& options);

}  // namespace kernwright::tool
