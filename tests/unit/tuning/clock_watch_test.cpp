#include "search/clock_watch.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "search/measurement_json.hpp"
#include "search/nvml_clock.hpp"

using namespace kernwright;
using namespace kernwright::tuning;

namespace {

/// Answers one sample after the other, then the last one for ever; 0 MHz: nothing.
class ScriptedClock final : public ClockSource {
 public:
  explicit ScriptedClock(std::vector<ClockSample> samples) : samples_(std::move(samples)) {}
  std::optional<ClockSample> sample() override {
    const ClockSample now = samples_[std::min(next_++, samples_.size() - 1)];
    return now.sm_mhz == 0 ? std::nullopt : std::optional(now);
  }

 private:
  std::vector<ClockSample> samples_;
  std::size_t next_ = 0;
};

/// Times that take two samples each; how many were made, and the last one's span.
std::pair<int, std::optional<ClockSpan>> timed(std::vector<ClockSample> samples, bool useful = true) {
  ScriptedClock source(std::move(samples));
  ClockWatch watch(&source);
  int made = 0;
  const auto span = watched(watch, [&] {
    ++made;
    watch.sample();
    watch.sample();
    return useful;
  });
  return {made, span};
}

}  // namespace

TEST_CASE("clock watch: a steady clock is timed once, a changed or held one once more, and is marked where that helps nothing") {
  CHECK(timed({{1980, 0}}) == std::pair{1, std::optional(ClockSpan{1980, 1980, 0, 0})});
  CHECK(timed({{1980, 0}, {1965, 1}}).first == 1);  // one step, and idling
  // Disturbed the first time, steady the second: the second counts.
  CHECK(timed({{1980, 0}, {1755, 0}, {1755, 0}}) == std::pair{2, std::optional(ClockSpan{1755, 1755, 0, 1})});
  CHECK(timed({{1980, 0}, {1980, 0x4}, {1980, 0}, {1980, 0}}) == std::pair{2, std::optional(ClockSpan{1980, 1980, 0, 1})});
  for (const std::uint64_t reason : {0x4U, 0x8U, 0x20U, 0x40U, 0x80U}) {
    const auto [made, span] = timed({{1980, reason}});
    CHECK(made == 2);
    REQUIRE(span);
    CHECK(span->disturbed());
    CHECK(span->repeated == 1);
    CHECK_FALSE(disturbance_text(reason).empty());
  }
  CHECK_FALSE(timed({{1980, 0x1 | 0x2 | 0x10}}).second->disturbed());
  CHECK(timed({{1980, 0x4}}, false).first == 1);  // a hopeless kernel's times need no second look
}

TEST_CASE("clock watch: where nothing can be read nothing is said") {
  CHECK(timed({{0, 0}}) == std::pair{1, std::optional<ClockSpan>()});
  ClockWatch nobody(nullptr);
  nobody.sample();
  CHECK_FALSE(nobody.span());
  CHECK(ClockSummary{}.text().empty());
  ClockSummary absent;
  absent.not_watched = "no library";
  CHECK(absent.text() == "not watched: no library");
}

TEST_CASE("clock watch: a summary of many timings") {
  ClockSummary summary;
  summary.add({1980, 1980, 0, 0});
  CHECK(summary.text() == "1980 MHz");
  summary.add({1755, 1980, 0x4, 1});
  CHECK(summary.text() == "1755 to 1980 MHz, 1 of 2 timings disturbed (power cap), 1 made again");
  ClockSummary both;
  both.merge(summary);
  both.merge(summary);
  CHECK(both.text() == "1755 to 1980 MHz, 2 of 4 timings disturbed (power cap), 2 made again");
}

TEST_CASE("clock watch: spans and the reason for none go through the journal's lines") {
  Measurement measurement;
  measurement.task.subject = {"demo/scale", Specialisation().set("heads", 8)};
  measurement.task.tile = Tile{"mma", 64, 32, 2, 8};
  measurement.outcome = Outcome::measured;
  measurement.shapes = {{"a", {1.5}, ClockSpan{1755, 1980, 0x24, 1}}, {"b", {2.5}, std::nullopt}};
  const auto read = measurement_of(json_of(measurement));
  REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
  CHECK(read->shapes[0].clock == measurement.shapes[0].clock);
  CHECK_FALSE(read->shapes[1].clock);
  CHECK(json_of(measurement)["shapes"][0]["clock"]["disturbed"] == true);
  measurement.clock_not_watched = "libnvidia-ml.so.1 could not be opened";
  CHECK(measurement_of(json_of(measurement))->clock_not_watched == measurement.clock_not_watched);
  Json broken = json_of(measurement);
  broken["shapes"][0]["clock"]["lowest_mhz"] = 5000;
  CHECK_FALSE(measurement_of(broken));
}

TEST_CASE("clock watch: NVML by the device's PCI address, and without it the reason is said") {
  const auto clock = open_nvml_clock(KERNWRIGHT_FAKE_NVML, "0000:01:00.0");
  REQUIRE_MESSAGE(clock, (clock ? "" : clock.error().message));
  // Opening has asked once already.
  const auto first = (*clock)->sample(), second = (*clock)->sample();
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->sm_mhz == 1965);
  CHECK(second->sm_mhz == 1950);
  CHECK(second->reasons == 0x4);
  const auto refused = [](const std::string& library, const std::string& bus) {
    const auto none = open_nvml_clock(library, bus);
    REQUIRE_FALSE(none);
    return none.error().message;
  };
  CHECK(refused(KERNWRIGHT_FAKE_NVML, "0000:02:00.0").find("does not know the device 0000:02:00.0") != std::string::npos);
  CHECK(refused("libno-such-nvml.so.1", "0000:01:00.0") == "libno-such-nvml.so.1 could not be opened");
  CHECK(refused(KERNWRIGHT_FAKE_CUDA_WHOLE, "0000:01:00.0").find("lacks functions of NVML") != std::string::npos);
  CHECK(refused(KERNWRIGHT_FAKE_NVML, "").find("PCI address") != std::string::npos);
}
