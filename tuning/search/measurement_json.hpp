// A measurement and a task as JSON: what the journal holds and what workers answer.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "kernwright/result.hpp"
#include "search/measurement.hpp"

namespace kernwright::tuning {

using Json = nlohmann::ordered_json;

/// One line without its end. Text that is no UTF-8 becomes U+FFFD.
std::string line_of(const Json& json);
/// malformed where the text is no JSON object.
Result<Json> parse_line(std::string_view line);

Json json_of(const Task& task);
Json json_of(const Measurement& measurement);
/// malformed names the field, and what is legal in it.
Result<Task> task_of(const Json& json);
Result<Measurement> measurement_of(const Json& json);

}  // namespace kernwright::tuning
