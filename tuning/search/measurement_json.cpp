#include "search/measurement_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <type_traits>

namespace kernwright::tuning {
namespace {

tl::unexpected<Error> wrong_field(std::string_view name, std::string_view legal) {
  return fail(ErrorCode::malformed, fmt::format("field '{}' must be {}", name, legal));
}

Result<std::string> text_field(const Json& json, const char* name) {
  const auto field = json.find(name);
  if (field == json.end() || !field->is_string()) return wrong_field(name, "a string");
  return field->get<std::string>();
}

/// The value whose name is that of the field.
template <class Enumeration>
Result<Enumeration> named_field(const Json& json, const char* name, std::initializer_list<Enumeration> values) {
  const auto text = text_field(json, name);
  if (!text) return fail(Error(text.error()));
  std::string legal;
  for (const Enumeration value : values) {
    if (*text == to_string(value)) return value;
    legal += fmt::format("{}{}", legal.empty() ? "one of " : ", ", to_string(value));
  }
  return wrong_field(name, legal);
}

Result<ShapeTimes> shape_of(const Json& json) {
  if (!json.is_object()) return wrong_field("shapes", "an array of objects");
  auto name = text_field(json, "shape");
  if (!name) return fail(std::move(name.error()));
  ShapeTimes shape{std::move(*name), {}};
  const auto samples = json.find("samples_ms");
  if (samples == json.end() || !samples->is_array()) return wrong_field("samples_ms", "an array of numbers");
  for (const Json& sample : *samples) {
    if (!sample.is_number() || !(sample.get<double>() > 0) || !std::isfinite(sample.get<double>())) {
      return wrong_field("samples_ms", "an array of numbers above 0");
    }
    shape.samples_ms.push_back(sample.get<double>());
  }
  if (const auto clock = json.find("clock"); clock != json.end()) {
    ClockSpan span;
    const auto number = [&](const char* field, auto& to) {
      const auto value = clock->find(field);
      if (value == clock->end() || !value->is_number_unsigned()) return false;
      to = value->get<std::remove_reference_t<decltype(to)>>();
      return true;
    };
    if (!clock->is_object() || !number("lowest_mhz", span.lowest_mhz) || !number("highest_mhz", span.highest_mhz) ||
        !number("reasons", span.reasons) || !number("repeated", span.repeated) || span.lowest_mhz > span.highest_mhz) {
      return wrong_field("clock", "an object with the numbers lowest_mhz, highest_mhz, reasons and repeated");
    }
    shape.clock = span;
  }
  return shape;
}

Json clock_json(const ClockSpan& span) {
  return {{"lowest_mhz", span.lowest_mhz},
          {"highest_mhz", span.highest_mhz},
          {"reasons", span.reasons},
          {"repeated", static_cast<unsigned>(span.repeated)},
          {"disturbed", span.disturbed()}};
}

}  // namespace

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> parse_line(std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return fail(ErrorCode::malformed, "the line is no JSON object");
  return json;
}

Json json_of(const Task& task) {
  return {{"template", task.subject.template_name},
          {"specialisation", task.subject.specialisation.text()},
          {"tile", task.tile.text()},
          {"phase", to_string(task.phase)},
          {"round", task.round}};
}

Json json_of(const Measurement& measurement) {
  Json json = json_of(measurement.task);
  json["outcome"] = to_string(measurement.outcome);
  if (!measurement.reason.empty()) json["reason"] = measurement.reason;
  if (!measurement.clock_not_watched.empty()) json["clock_not_watched"] = measurement.clock_not_watched;
  Json shapes = Json::array();
  for (const ShapeTimes& shape : measurement.shapes) {
    Json times{{"shape", shape.shape}, {"samples_ms", shape.samples_ms}};
    if (shape.clock) times["clock"] = clock_json(*shape.clock);
    shapes.push_back(std::move(times));
  }
  json["shapes"] = std::move(shapes);
  return json;
}

Result<Task> task_of(const Json& json) {
  Task task;
  auto name = text_field(json, "template");
  if (!name) return fail(std::move(name.error()));
  task.subject.template_name = std::move(*name);
  auto constants = text_field(json, "specialisation");
  if (!constants) return fail(std::move(constants.error()));
  auto specialisation = Specialisation::parse(*constants);
  if (!specialisation) return fail(std::move(specialisation.error()));
  task.subject.specialisation = std::move(*specialisation);
  auto text = text_field(json, "tile");
  if (!text) return fail(std::move(text.error()));
  auto tile = Tile::parse(*text);
  if (!tile) return fail(std::move(tile.error()));
  task.tile = std::move(*tile);
  auto phase = named_field(json, "phase", {Phase::search, Phase::finals, Phase::choice});
  if (!phase) return fail(std::move(phase.error()));
  task.phase = *phase;
  const auto round = json.find("round");
  if (round == json.end() || !round->is_number_integer()) return wrong_field("round", "an integer");
  task.round = round->get<int>();
  return task;
}

Result<Measurement> measurement_of(const Json& json) {
  Measurement measurement;
  auto task = task_of(json);
  if (!task) return fail(std::move(task.error()));
  measurement.task = std::move(*task);
  auto outcome = named_field(
      json, "outcome",
      {Outcome::measured, Outcome::hopeless, Outcome::wrong, Outcome::not_built, Outcome::refused, Outcome::faulted, Outcome::hung});
  if (!outcome) return fail(std::move(outcome.error()));
  measurement.outcome = *outcome;
  if (json.contains("reason")) {
    auto reason = text_field(json, "reason");
    if (!reason) return fail(std::move(reason.error()));
    measurement.reason = std::move(*reason);
  }
  if (json.contains("clock_not_watched")) {
    auto why = text_field(json, "clock_not_watched");
    if (!why) return fail(std::move(why.error()));
    measurement.clock_not_watched = std::move(*why);
  }
  const auto shapes = json.find("shapes");
  if (shapes == json.end() || !shapes->is_array()) return wrong_field("shapes", "an array of objects");
  for (const Json& each : *shapes) {
    auto shape = shape_of(each);
    if (!shape) return fail(std::move(shape.error()));
    measurement.shapes.push_back(std::move(*shape));
  }
  return measurement;
}

}  // namespace kernwright::tuning
