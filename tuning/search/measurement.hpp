// One measurement: of which kernel, how it ended, how long it took.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/specialisation.hpp"
#include "kernwright/tile.hpp"
#include "search/clock_watch.hpp"

namespace kernwright::tuning {

/// What gets a row of a table: one specialisation of one template.
struct Subject {
  std::string template_name;
  Specialisation specialisation;  ///< Complete, in the manifest's order.
  [[nodiscard]] std::string text() const { return template_name + " " + specialisation.text(); }
  friend bool operator==(const Subject&, const Subject&) = default;
};

enum class Phase : std::uint8_t {
  search,  ///< Every point that the strategy hands out, once.
  finals,  ///< The best of them and the default, several rounds in random order.
  choice,  ///< The winners for several values of a parameter against each other.
};
std::string_view to_string(Phase phase) noexcept;  ///< "search", "finals", "choice"

struct Task {
  Subject subject;
  Tile tile;
  Phase phase = Phase::search;
  int round = 0;
  /// Equal tasks have equal words, and no two tasks of a run are equal.
  [[nodiscard]] std::string words() const;
};

enum class Outcome : std::uint8_t {
  measured,   ///< Right on every shape, and timed.
  hopeless,   ///< Right where it was looked at, and so much slower than the best that it was left.
  wrong,      ///< The output of a shape is not the reference's. Nothing is timed.
  not_built,  ///< The compiler refused it.
  refused,    ///< It could not be prepared or launched; the device is as it was.
  faulted,    ///< Its process ended by a signal, or the device reported a fault.
  hung,       ///< Its process said nothing for the time limit and was killed.
};
std::string_view to_string(Outcome outcome) noexcept;

struct ShapeTimes {
  std::string shape;
  std::vector<double> samples_ms;
  std::optional<ClockSpan> clock = {};  ///< Empty: not watched.
};

struct Measurement {
  Task task;
  Outcome outcome = Outcome::refused;
  std::string reason;                  ///< Why it was not measured; empty where it was.
  std::vector<ShapeTimes> shapes;      ///< In the order of the run's shapes; up to the one at which it was left.
  std::string clock_not_watched = {};  ///< Why the clock was not watched; empty: it was, or the device has none to watch.
};
void add_clocks(ClockSummary& summary, const Measurement& measurement);

/// Geometric mean over the shapes of the median, in milliseconds: every shape weighs the same, however long it takes. Infinity unless
/// the outcome is `measured`.
double score(const Measurement& measurement);

}  // namespace kernwright::tuning
