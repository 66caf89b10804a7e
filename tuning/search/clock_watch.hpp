// The device's clock while something is timed: whether it changed, and whether something held it back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kernwright::tuning {

struct ClockSample {
  std::uint32_t sm_mhz = 0;
  std::uint64_t reasons = 0;  ///< NVML's bits of what holds clocks back.
};

/// The seam to NVML, so that tests can move a clock.
class ClockSource {
 public:
  virtual ~ClockSource() = default;
  /// Nothing where it cannot be read just now.
  virtual std::optional<ClockSample> sample() = 0;
};

/// What was seen from the first sample of a timing to the last.
struct ClockSpan {
  std::uint32_t lowest_mhz = 0, highest_mhz = 0;
  std::uint64_t reasons = 0;
  int repeated = 0;  ///< How often the timing was made again because an earlier one was disturbed.
  /// The clock changed by more than 2%, or power, heat or a slowdown by hardware held it back: the times may be of another clock than
  /// those that they are compared with.
  [[nodiscard]] bool disturbed() const noexcept;
  friend bool operator==(const ClockSpan&, const ClockSpan&) = default;
};
/// "power cap, thermal slowdown": those of the reasons that disturb; empty: none.
std::string disturbance_text(std::uint64_t reasons);

/// Samples of one timing.
class ClockWatch {
 public:
  /// Null: nothing is watched.
  explicit ClockWatch(ClockSource* source) noexcept : source_(source) {}
  void sample();
  /// Forgets the samples: the timing is made again.
  void restart() noexcept { span_.reset(); }
  /// Empty where nothing was read.
  [[nodiscard]] const std::optional<ClockSpan>& span() const noexcept { return span_; }

 private:
  ClockSource* source_;
  std::optional<ClockSpan> span_;
};

/// Calls time() and, where its timing was disturbed, once more: a clock that has just changed is often steady the second time. `time`
/// samples `watch` and answers whether another timing makes sense. The span of the last one, with `repeated`.
template <class Time>
std::optional<ClockSpan> watched(ClockWatch& watch, Time time) {
  constexpr int kMostRepeats = 1;
  for (int repeated = 0;; ++repeated) {
    watch.restart();
    const bool again = time();
    std::optional<ClockSpan> span = watch.span();
    if (span) span->repeated = repeated;
    if (!again || !span || !span->disturbed() || repeated == kMostRepeats) return span;
  }
}

/// Many spans in one line.
struct ClockSummary {
  int timings = 0, disturbed = 0, repeated = 0;
  std::uint32_t lowest_mhz = 0, highest_mhz = 0;
  std::uint64_t reasons = 0;
  std::string not_watched;  ///< Why not; empty: watched, or of a device that has no clock to watch.
  void add(const ClockSpan& span);
  void merge(const ClockSummary& other);
  /// "1980 MHz", "1755 to 1980 MHz, 3 of 15 timings disturbed (power cap)", "not watched: …"; empty where there is nothing to say.
  [[nodiscard]] std::string text() const;
};

}  // namespace kernwright::tuning
