// A tuning as a page: what was decided, how fast, how sure, and what failed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "html_page.hpp"
#include "support/format.hpp"
#include "support/spread.hpp"
#include "tune.hpp"
#include "tune_json.hpp"

namespace kernwright::tool {
namespace {

using tuning::Contest;
using tuning::Measurement;
using Kind = HtmlPage::Column::Kind;

constexpr double kSignificant = 1e-12;

std::string milliseconds(double ms) {
  return fmt::format("{:.4g}", ms);
}
std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

const Measurement* search_of(const Contest& contest, const Tile& tile) {
  const auto found = std::ranges::find_if(contest.search, [&](const Measurement& each) { return each.task.tile == tile; });
  return found == contest.search.end() ? nullptr : &*found;
}

/// The medians of a tile's search by shape, null where a shape was not timed.
Json medians_of(const Contest& contest, const Tile& tile, const std::vector<std::string>& shapes) {
  Json values = Json::array();
  const Measurement* const measured = search_of(contest, tile);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool timed = measured != nullptr && i < measured->shapes.size() && !measured->shapes[i].samples_ms.empty();
    values.push_back(timed ? Json(support::spread(measured->shapes[i].samples_ms).median) : Json(nullptr));
  }
  return values;
}

Json bars(const std::vector<std::string>& labels, Json series) {
  return {{"kind", "bars"}, {"unit", "ms"}, {"log", true}, {"labels", labels}, {"series", std::move(series)}};
}

/// Every point of the search on a grid: variant, rows and warps down, columns and stages across.
Json heat_map(const Contest& contest) {
  struct Axis {
    std::vector<std::string> labels;
    std::size_t place(const std::string& label) const {
      return static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin());
    }
  };
  const auto across = [](const Tile& tile) { return std::pair(tile.block_n, tile.stages); };
  const auto down = [](const Tile& tile) { return std::tuple(tile.variant, tile.block_m, tile.warps); };
  std::map<std::pair<int, int>, std::string> columns;
  std::map<std::tuple<std::string, int, int>, std::string> rows;
  for (const Measurement& each : contest.search) {
    const Tile& tile = each.task.tile;
    columns[across(tile)] = fmt::format("n{} s{}", tile.block_n, tile.stages);
    rows[down(tile)] = fmt::format("{} m{} w{}", tile.variant, tile.block_m, tile.warps);
  }
  Axis x, y;
  for (const auto& [key, label] : columns) x.labels.push_back(label);
  for (const auto& [key, label] : rows) y.labels.push_back(label);
  Json cells = Json::array();
  for (const Measurement& each : contest.search) {
    const Tile& tile = each.task.tile;
    const bool measured = each.outcome == tuning::Outcome::measured;
    cells.push_back({{"x", x.place(columns[across(tile)])},
                     {"y", y.place(rows[down(tile)])},
                     {"tile", tile.text()},
                     {"value", measured ? Json(score(each)) : Json(nullptr)},
                     {"outcome", to_string(each.outcome)}});
  }
  return {{"kind", "heat"}, {"unit", "ms"}, {"x", x.labels}, {"y", y.labels}, {"cells", std::move(cells)}};
}

/// What a finalist is called where several take part.
std::string name_of(const tuning::Finalist& finalist, bool with_specialisation) {
  return with_specialisation ? fmt::format("{} {}", finalist.subject.specialisation.text(), finalist.tile.text()) : finalist.tile.text();
}

void finals(HtmlPage& page, const std::vector<tuning::Finalist>& finalists, const tuning::Decision& decision, bool with_specialisation) {
  std::vector<std::string> labels;
  Json rounds = Json::array(), medians = Json::array();
  std::vector<HtmlPage::Row> rows;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const tuning::Finalist& each = finalists[i];
    const std::string name = name_of(each, with_specialisation);
    const bool failed = !each.failure.empty();
    if (!failed) {
      for (const double ms : each.round_ms) rounds.push_back({labels.size(), ms});
      medians.push_back({labels.size(), each.median_ms});
      labels.push_back(name);
    }
    rows.push_back({{name, failed ? "-" : milliseconds(each.median_ms), failed ? "-" : percent(each.noise),
                     failed                 ? "failed: " + each.failure
                     : decision.winner == i ? "chosen"
                                            : ""},
                    decision.winner == i});
  }
  page.table({{"tile", Kind::code}, {"median ms", Kind::number}, {"noise %", Kind::number}, {"", Kind::prose}}, rows);
  if (labels.empty()) return;
  page.chart("The finals: the score of every round and their median, in ms. What the rounds of one row are apart is its noise.",
             {{"kind", "points"},
              {"unit", "ms"},
              {"log", false},
              {"labels", labels},
              {"series", {{{"name", "a round"}, {"points", rounds}}, {{"name", "median"}, {"points", medians}}}}});
}

void search_table(HtmlPage& page, const Contest& contest) {
  std::vector<const Measurement*> order;
  for (const Measurement& each : contest.search) order.push_back(&each);
  std::ranges::stable_sort(order, {}, [](const Measurement* each) { return score(*each); });
  const double best = order.empty() ? 0 : score(*order.front());
  std::vector<HtmlPage::Row> rows;
  for (const Measurement* each : order) {
    const bool measured = each->outcome == tuning::Outcome::measured;
    const bool chosen = contest.tile() != nullptr && each->task.tile == *contest.tile();
    rows.push_back({{each->task.tile.text(), std::string(to_string(each->outcome)), measured ? milliseconds(score(*each)) : "-",
                     measured && best > kSignificant ? fmt::format("{:.2f}", score(*each) / best) : "-", each->reason},
                    chosen});
  }
  page.table({{"tile", Kind::code}, {"outcome", Kind::text}, {"score ms", Kind::number}, {"x best", Kind::number}, {"why", Kind::prose}},
             rows);
}

void subject_section(HtmlPage& page, const TuneReport& report, const TunedSubject& subject, bool open) {
  const Contest& contest = subject.contest;
  const Tile* const tile = contest.tile();
  page.begin_section(fmt::format("{}: {}", contest.subject.specialisation.text(), tile == nullptr ? "none" : tile->text()), open);
  page.paragraph(fmt::format("{}. {} tiles offered, {} not legal, {} over the device's limits, {} searched.", contest.decision.reason,
                             subject.offered, subject.illegal, subject.over_limits, contest.search.size()));
  if (tile != nullptr) {
    page.small_heading("Speed by shape");
    Json series = Json::array();
    series.push_back(
        {{"name", "default " + contest.default_tile.text()}, {"values", medians_of(contest, contest.default_tile, report.origin.shapes)}});
    if (*tile != contest.default_tile)
      series.push_back({{"name", "chosen " + tile->text()}, {"values", medians_of(contest, *tile, report.origin.shapes)}});
    page.chart("Median time of each shape in the search, in ms: the default tile and the chosen one.",
               bars(report.origin.shapes, std::move(series)));
    page.small_heading("Finals and noise");
    finals(page, contest.finalists, contest.decision, false);
  }
  page.small_heading("The space");
  page.chart(
      "Every tile that was searched, by the geometric mean of its shapes' medians: the strongest colour is the best, the faintest four "
      "times "
      "as slow or more, an outline the fastest; a cross failed or was left as hopeless.",
      heat_map(contest));
  page.small_heading("Every tile, and what failed");
  search_table(page, contest);
  page.end_section();
}

/// The winners of one head count by shape: what the parameter by which they differ is worth.
void overview(HtmlPage& page, const TuneReport& report) {
  std::map<std::string, std::vector<const TunedSubject*>> by_heads;
  for (const TunedSubject& subject : report.subjects) {
    const auto heads = subject.contest.subject.specialisation.get("heads");
    by_heads[heads ? to_string(*heads) : ""].push_back(&subject);
  }
  for (const auto& [heads, subjects] : by_heads) {
    Json series = Json::array();
    for (const TunedSubject* subject : subjects) {
      const Contest& contest = subject->contest;
      if (contest.tile() == nullptr) continue;
      const auto value = contest.subject.specialisation.get(report.comparison.parameter);
      series.push_back(
          {{"name", fmt::format("{} = {}: {}", report.comparison.symbol, value ? to_string(*value) : "?", contest.tile()->text())},
           {"values", medians_of(contest, *contest.tile(), report.origin.shapes)}});
    }
    if (series.empty()) continue;
    page.chart(fmt::format("{} heads: median time of each shape with the chosen tile of each {}, in ms.", heads, report.comparison.meaning),
               bars(report.origin.shapes, std::move(series)));
  }
}

void decisions(HtmlPage& page, const TuneReport& report) {
  std::vector<HtmlPage::Row> rows;
  for (const TunedSubject& subject : report.subjects) {
    const Contest& contest = subject.contest;
    const Tile* const tile = contest.tile();
    std::map<tuning::Outcome, std::size_t> counts;
    for (const Measurement& each : contest.search) ++counts[each.outcome];
    std::string outcomes;
    for (const auto& [outcome, count] : counts) outcomes += fmt::format("{}{} {}", outcomes.empty() ? "" : ", ", count, to_string(outcome));
    rows.push_back({{contest.subject.specialisation.text(), contest.default_tile.text(), tile == nullptr ? "none" : tile->text(),
                     tile == nullptr ? "-" : fmt::format("{:.2f}", contest.decision.gain),
                     tile == nullptr ? "-" : percent(contest.decision.noise), outcomes},
                    false});
  }
  page.table({{"specialisation", Kind::code},
              {"default", Kind::code},
              {"chosen", Kind::code},
              {"gain", Kind::number},
              {"noise %", Kind::number},
              {"tiles", Kind::prose}},
             rows);
}

}  // namespace

HtmlPage html_of(const TuneReport& report) {
  const tuning::Origin& origin = report.origin;
  HtmlPage page(fmt::format("Tuning of {} on {}", report.family, origin.device.name));
  page.facts(
      {{"Device", fmt::format("{} ({}), driver {}, {}", origin.device.name, origin.device.target.name(),
                              origin.driver.empty() ? "none" : origin.driver, origin.compiler)},
       {"Begun", origin.date},
       {"Timing", fmt::format("median of {} after {} warm-ups; finals of {} rounds", report.repetitions, report.warm_ups, report.rounds)},
       {"Search", fmt::format("{}, seed {}", report.strategy, report.seed)},
       {"Measured", fmt::format("{}, {} of them in an earlier run", report.measured + report.resumed, report.resumed)},
       {"Clocks", clocks_of(report).empty() ? "none to watch" : clocks_of(report)},
       {"Journal", report.journal.string()},
       {"Table", report.table.empty() ? "none was written" : report.table.string()}});
  if (origin.device.id.backend == BackendKind::host) {
    page.paragraph("These are times of Kernwright's interpreter on a CPU, not a GPU's.");
  }
  page.heading("Decisions");
  page.paragraph(
      "A tile replaces the default where it is faster by more than the noise of both: (largest - smallest) / median of the finals' "
      "rounds.");
  decisions(page, report);
  for (const TunedParameter& tuned : report.parameters) {
    page.small_heading(fmt::format("{} for {}", tuned.choice.parameter, tuned.choice.known.text()));
    page.paragraph(tuned.decision.reason);
    finals(page, tuned.finalists, tuned.decision, true);
  }
  page.heading("Speed by shape");
  overview(page, report);
  page.heading("Each specialisation");
  for (std::size_t i = 0; i < report.subjects.size(); ++i) subject_section(page, report, report.subjects[i], i == 0);
  page.data(json_document(report));
  return page;
}

}  // namespace kernwright::tool
