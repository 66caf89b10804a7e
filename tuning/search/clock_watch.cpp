#include "search/clock_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace kernwright::tuning {
namespace {

constexpr double kSteady = 0.02;  // a step of the clock is 15 MHz of 1980

struct Reason {
  std::uint64_t bit;
  std::string_view text;
};
/// nvmlClocksThrottleReason…, those that lower the clock against the driver's intent. Idling (0x1), clocks set by the user (0x2) and
/// sync boost (0x10) do not.
constexpr std::array<Reason, 5> kReasons{{{0x4, "power cap"},
                                          {0x8, "hardware slowdown"},
                                          {0x20, "thermal slowdown"},
                                          {0x40, "thermal slowdown by hardware"},
                                          {0x80, "power brake"}}};

}  // namespace

std::string disturbance_text(std::uint64_t reasons) {
  std::string text;
  for (const Reason& each : kReasons) {
    if ((reasons & each.bit) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", each.text);
  }
  return text;
}

bool ClockSpan::disturbed() const noexcept {
  const bool held = std::ranges::any_of(kReasons, [&](const Reason& each) { return (reasons & each.bit) != 0; });
  return held || static_cast<double>(highest_mhz - lowest_mhz) > kSteady * static_cast<double>(highest_mhz);
}

void ClockWatch::sample() {
  if (source_ == nullptr) return;
  const auto now = source_->sample();
  if (!now) return;
  if (!span_) {
    span_ = ClockSpan{now->sm_mhz, now->sm_mhz, now->reasons, 0};
    return;
  }
  span_->lowest_mhz = std::min(span_->lowest_mhz, now->sm_mhz);
  span_->highest_mhz = std::max(span_->highest_mhz, now->sm_mhz);
  span_->reasons |= now->reasons;
}

void ClockSummary::add(const ClockSpan& span) {
  lowest_mhz = timings == 0 ? span.lowest_mhz : std::min(lowest_mhz, span.lowest_mhz);
  highest_mhz = std::max(highest_mhz, span.highest_mhz);
  ++timings;
  disturbed += span.disturbed() ? 1 : 0;
  repeated += span.repeated;
  reasons |= span.reasons;
}

void ClockSummary::merge(const ClockSummary& other) {
  if (!other.not_watched.empty()) not_watched = other.not_watched;
  if (other.timings == 0) return;
  lowest_mhz = timings == 0 ? other.lowest_mhz : std::min(lowest_mhz, other.lowest_mhz);
  highest_mhz = std::max(highest_mhz, other.highest_mhz);
  timings += other.timings;
  disturbed += other.disturbed;
  repeated += other.repeated;
  reasons |= other.reasons;
}

std::string ClockSummary::text() const {
  if (timings == 0) return not_watched.empty() ? std::string() : fmt::format("not watched: {}", not_watched);
  std::string text = lowest_mhz == highest_mhz ? fmt::format("{} MHz", highest_mhz) : fmt::format("{} to {} MHz", lowest_mhz, highest_mhz);
  if (disturbed > 0) {
    const std::string why = disturbance_text(reasons);
    text += fmt::format(", {} of {} timings disturbed{}", disturbed, timings, why.empty() ? "" : fmt::format(" ({})", why));
  }
  if (repeated > 0) text += fmt::format(", {} made again", repeated);
  return text;
}

}  // namespace kernwright::tuning
