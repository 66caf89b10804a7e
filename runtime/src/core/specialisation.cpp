#include "kernwright/specialisation.hpp"

#include <algorithm>
#include <charconv>

namespace kernwright {
namespace {

void assign(std::vector<Specialisation::Item>& items, std::string_view name, ParameterValue value) {
  for (auto& item : items) {
    if (item.name == name) {
      item.value = value;
      return;
    }
  }
  items.push_back({std::string(name), value});
}

std::optional<ParameterValue> parse_value(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc{} && end == text.data() + text.size()) return number;
  if (const auto dtype = dtype_from_string(text)) return *dtype;
  return std::nullopt;
}

}  // namespace

Result<Specialisation> Specialisation::parse(std::string_view text) {
  const auto refuse = [](std::string_view part, std::string_view problem) {
    std::string message = "'";
    message += part.substr(0, 100);
    message += "' ";
    message += problem;
    message += "; legal are parts such as heads=8 or dtype=bf16, with spaces between them";
    return fail(ErrorCode::invalid_argument, std::move(message));
  };
  Specialisation specialisation;
  constexpr std::string_view kBlank = " \t\n";
  for (std::size_t begin = text.find_first_not_of(kBlank); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = text.find_first_not_of(kBlank, end);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) return refuse(part, "is no name=value");
    const std::string_view name = part.substr(0, equals);
    const auto value = parse_value(part.substr(equals + 1));
    if (!value) return refuse(part, "has a value that is neither an integer nor one of bf16, f16, f32, i32, i64, u8");
    if (specialisation.get(name)) return refuse(part, "names a parameter for the second time");
    assign(specialisation.items_, name, *value);
  }
  return specialisation;
}

Specialisation& Specialisation::set(std::string_view name, std::int64_t value) {
  assign(items_, name, value);
  return *this;
}

Specialisation& Specialisation::set(std::string_view name, DType value) {
  assign(items_, name, value);
  return *this;
}

std::optional<ParameterValue> Specialisation::get(std::string_view name) const {
  for (const auto& item : items_) {
    if (item.name == name) return item.value;
  }
  return std::nullopt;
}

std::string Specialisation::text() const {
  std::string line;
  for (const auto& item : items_) {
    if (!line.empty()) line += ' ';
    line += item.name;
    line += '=';
    line += to_string(item.value);
  }
  return line;
}

std::string to_string(const ParameterValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  return std::string(to_string(std::get<DType>(value)));
}

}  // namespace kernwright
