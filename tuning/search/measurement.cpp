#include "search/measurement.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "support/spread.hpp"

namespace kernwright::tuning {

std::string_view to_string(Phase phase) noexcept {
  switch (phase) {
    case Phase::search: return "search";
    case Phase::finals: return "finals";
    case Phase::choice: return "choice";
  }
  return "search";
}

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::measured: return "measured";
    case Outcome::hopeless: return "hopeless";
    case Outcome::wrong: return "wrong";
    case Outcome::not_built: return "not_built";
    case Outcome::refused: return "refused";
    case Outcome::faulted: return "faulted";
    case Outcome::hung: return "hung";
  }
  return "refused";
}

std::string Task::words() const {
  return fmt::format("{} {} {} {}", subject.text(), tile.text(), to_string(phase), round);
}

void add_clocks(ClockSummary& summary, const Measurement& measurement) {
  if (!measurement.clock_not_watched.empty()) summary.not_watched = measurement.clock_not_watched;
  for (const ShapeTimes& shape : measurement.shapes) {
    if (shape.clock) summary.add(*shape.clock);
  }
}

double score(const Measurement& measurement) {
  if (measurement.outcome != Outcome::measured || measurement.shapes.empty()) return std::numeric_limits<double>::infinity();
  double logarithms = 0;
  for (const ShapeTimes& shape : measurement.shapes) logarithms += std::log(support::spread(shape.samples_ms).median);
  return std::exp(logarithms / static_cast<double>(measurement.shapes.size()));
}

}  // namespace kernwright::tuning
