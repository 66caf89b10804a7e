#include "kernwright/specialisation.hpp"

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

}  // namespace

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
