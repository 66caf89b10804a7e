#include "support/number_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "support/format.hpp"

namespace kernwright::support {
namespace {

std::optional<int> parse_number(std::string_view word) {
  int value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::vector<int>> parse_numbers(std::string_view option, std::string_view words, int smallest, int largest) {
  const auto refuse = [&](std::string_view part, std::string_view problem) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} {}: '{}' {}; legal are numbers from {} to {} and ranges of them, such as {},{}-{}", option, words, part,
                            problem, smallest, largest, smallest, smallest + 1, largest));
  };
  std::vector<int> numbers;
  for (const std::string& part : split(words, ',')) {
    const std::size_t dash = part.find('-', 1);
    const auto first = parse_number(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_number(std::string_view(part).substr(dash + 1));
    if (!first || !last) return refuse(part, "is no number and no range");
    if (*first < smallest || *last > largest || *first > largest || *last < smallest) return refuse(part, "is out of range");
    if (*last < *first) return refuse(part, "ends before it begins");
    for (int number = *first; number <= *last; ++number) {
      if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
    }
  }
  if (numbers.empty()) return refuse("", "is empty");
  return numbers;
}

}  // namespace kernwright::support
