// How a tuning is shown: tables of 100 columns, and a JSON document with every sample.
#include <fmt/format.h>

#include <array>
#include <map>

#include "json_document.hpp"
#include "support/format.hpp"
#include "support/text_table.hpp"
#include "tune_json.hpp"

namespace kernwright::tool {
namespace {

using support::TextTable;
using tuning::Measurement;
using tuning::Outcome;

constexpr std::size_t kColumns = 100;

std::map<Outcome, std::size_t> outcomes_of(const tuning::Contest& contest) {
  std::map<Outcome, std::size_t> counts;
  for (const Measurement& each : contest.search) ++counts[each.outcome];
  return counts;
}

/// Lines of at most 100 columns, broken at blanks; those behind the first are indented.
std::string wrapped(const std::string& text) {
  std::string lines;
  std::size_t width = 0;
  for (const std::string& word : support::split(support::printable(text), ' ')) {
    if (width > 0 && width + 1 + word.size() > kColumns) {
      lines += "\n  ";
      width = 2;
    } else if (width > 0) {
      lines += ' ';
      ++width;
    }
    // A word as long as a path may be stands on several lines.
    for (std::size_t from = 0; from < word.size(); from += kColumns - 2) {
      if (from > 0) {
        lines += "\n  ";
        width = 2;
      }
      const std::string part = word.substr(from, kColumns - 2);
      lines += part;
      width += part.size();
    }
  }
  return lines + "\n";
}

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string subject_rows(const TuneReport& report) {
  using Align = TextTable::Align;
  TextTable table(
      {{"specialisation", Align::left}, {"default", Align::left}, {"tile", Align::left}, {"gain", Align::right}, {"noise %", Align::right}},
      0);
  for (const TunedSubject& subject : report.subjects) {
    const tuning::Contest& contest = subject.contest;
    const Tile* const tile = contest.tile();
    std::string constants;  // the dtype and d_qk are the same in all rows
    for (const auto& item : contest.subject.specialisation.items()) {
      if (item.name != "dtype" && item.name != "d_qk")
        constants += fmt::format("{}{}={}", constants.empty() ? "" : " ", item.name, to_string(item.value));
    }
    table.row({constants, contest.default_tile.text(),
               tile == nullptr                 ? "none"
               : *tile == contest.default_tile ? "stays"
                                               : tile->text(),
               tile == nullptr ? "-" : fmt::format("{:.2f}", contest.decision.gain),
               tile == nullptr ? "-" : percent(contest.decision.noise)});
  }
  return table.text();
}

Json times_json(const Measurement& measurement) {
  Json shapes = Json::array();
  for (const tuning::ShapeTimes& shape : measurement.shapes) shapes.push_back({{"shape", shape.shape}, {"samples_ms", shape.samples_ms}});
  return shapes;
}

Json finalists_json(const std::vector<tuning::Finalist>& finalists) {
  Json json = Json::array();
  for (const tuning::Finalist& each : finalists) {
    json.push_back({{"specialisation", each.subject.specialisation.text()},
                    {"tile", each.tile.text()},
                    {"round_ms", each.round_ms},
                    {"median_ms", each.failure.empty() ? Json(each.median_ms) : Json(nullptr)},
                    {"noise", each.noise},
                    {"clocks", text_or_null(each.clocks.text())},
                    {"failure", text_or_null(each.failure)}});
  }
  return json;
}

Json decision_json(const tuning::Decision& decision) {
  return {{"gain", decision.gain}, {"noise", decision.noise}, {"reason", decision.reason}};
}

}  // namespace

/// Of everything that was timed in the searches and the finals.
std::string clocks_of(const TuneReport& report) {
  tuning::ClockSummary all;
  for (const TunedSubject& subject : report.subjects) {
    for (const Measurement& each : subject.contest.search) add_clocks(all, each);
    for (const tuning::Finalist& each : subject.contest.finalists) all.merge(each.clocks);
  }
  return all.text();
}

std::string text_of(const TuneReport& report) {
  const tuning::Origin& origin = report.origin;
  std::string shapes;
  for (const std::string& shape : origin.shapes) shapes += fmt::format("{}{}", shapes.empty() ? "" : ", ", shape);
  std::string text = wrapped(fmt::format("device    {} ({}), driver {}, {}", origin.device.name, origin.device.target.name(),
                                         origin.driver.empty() ? "none" : origin.driver, origin.compiler));
  text += wrapped(fmt::format("shapes    {}", shapes));
  text += fmt::format("timing    median of {} after {}; finals of {} rounds; {}, seed {}\n", report.repetitions, report.warm_ups,
                      report.rounds, report.strategy, report.seed);
  text += fmt::format("measured  {}, {} more from the journal, in {}, {} worker processes\n", report.measured, report.resumed,
                      support::format_duration(report.seconds), report.worker_starts);
  if (const std::string clocks = clocks_of(report); !clocks.empty()) text += wrapped(fmt::format("clocks    {}", clocks));
  text += fmt::format("\n{}\n", subject_rows(report));
  for (const TunedSubject& subject : report.subjects) {
    std::string outcomes;
    for (const auto& [outcome, count] : outcomes_of(subject.contest)) outcomes += fmt::format(", {} {}", count, to_string(outcome));
    text +=
        wrapped(fmt::format("{}: {} tiles offered, {} not legal, {} over the limits{}. {}", subject.contest.subject.specialisation.text(),
                            subject.offered, subject.illegal, subject.over_limits, outcomes, subject.contest.decision.reason));
  }
  for (const TunedParameter& tuned : report.parameters) {
    const std::string winner = tuned.decision.winner ? tuned.finalists[*tuned.decision.winner].subject.specialisation.text() : "none";
    text += wrapped(fmt::format("{} for {}: {}. {}", tuned.choice.parameter, tuned.choice.known.text(), winner, tuned.decision.reason));
  }
  text += wrapped(report.table.empty() ? "no table was written: nothing was measured that a row could name"
                                       : fmt::format("table written: {}", report.table.string()));
  return text;
}

Json json_document(const TuneReport& report) {
  Json subjects = Json::array();
  for (const TunedSubject& subject : report.subjects) {
    const tuning::Contest& contest = subject.contest;
    Json outcomes = Json::object();
    for (const auto& [outcome, count] : outcomes_of(contest)) outcomes[std::string(to_string(outcome))] = count;
    Json search = Json::array();
    for (const Measurement& each : contest.search) {
      search.push_back({{"tile", each.task.tile.text()},
                        {"outcome", to_string(each.outcome)},
                        {"reason", text_or_null(each.reason)},
                        {"score_ms", score(each)},
                        {"shapes", times_json(each)}});
    }
    Json json{{"template", contest.subject.template_name},
              {"specialisation", contest.subject.specialisation.text()},
              {"digest", subject.digest},
              {"offered", subject.offered},
              {"illegal", subject.illegal},
              {"over_limits", subject.over_limits},
              {"points", subject.points},
              {"outcomes", std::move(outcomes)},
              {"default", contest.default_tile.text()},
              {"tile", contest.tile() == nullptr ? Json(nullptr) : Json(contest.tile()->text())}};
    json.update(decision_json(contest.decision));
    json["finalists"] = finalists_json(contest.finalists);
    json["search"] = std::move(search);
    subjects.push_back(std::move(json));
  }
  Json parameters = Json::array();
  for (const TunedParameter& tuned : report.parameters) {
    Json json{{"parameter", tuned.choice.parameter}, {"known", tuned.choice.known.text()}, {"default", tuned.choice.default_value}};
    json["winner"] = tuned.decision.winner ? Json(tuned.finalists[*tuned.decision.winner].subject.specialisation.text()) : Json(nullptr);
    json.update(decision_json(tuned.decision));
    json["finalists"] = finalists_json(tuned.finalists);
    parameters.push_back(std::move(json));
  }
  const tuning::Origin& origin = report.origin;
  return {{"format", 1},
          {"family", report.family},
          {"device", origin.device.name},
          {"target", origin.device.target.name()},
          {"driver", text_or_null(origin.driver)},
          {"compiler", origin.compiler},
          {"date", origin.date},
          {"shapes", origin.shapes},
          {"strategy", report.strategy},
          {"seed", report.seed},
          {"repetitions", report.repetitions},
          {"warm_ups", report.warm_ups},
          {"rounds", report.rounds},
          {"measured", report.measured},
          {"resumed", report.resumed},
          {"worker_starts", report.worker_starts},
          {"clocks", text_or_null(clocks_of(report))},
          {"seconds", report.seconds},
          {"journal", report.journal.string()},
          {"table", text_or_null(report.table.string())},
          {"subjects", std::move(subjects)},
          {"parameters", std::move(parameters)}};
}

std::string json_of(const TuneReport& report) {
  return document(json_document(report));
}

}  // namespace kernwright::tool
