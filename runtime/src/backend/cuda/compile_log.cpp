#include "backend/cuda/compile_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

namespace kernwright {

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The number that stands right before `unit`, as in "16 bytes spill stores".
std::optional<std::uint64_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::uint64_t value = 0;
  const auto [stop, problem] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (begin == end || problem != std::errc{} || stop != line.data() + end) return std::nullopt;
  return value;
}

struct Location {
  const SourceFile* file = nullptr;
  std::size_t line = 0;
};

// "name(12): error: …", also "catastrophic error" and "error #123".
std::optional<Location> error_location(std::string_view line, std::span<const SourceFile> sources) {
  const std::size_t close = line.find("): ");
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(close + 3);
  if (!rest.starts_with("error") && !rest.starts_with("catastrophic error")) return std::nullopt;
  const std::size_t open = line.rfind('(', close);
  if (open == std::string_view::npos) return std::nullopt;
  std::size_t number = 0;
  const auto [stop, problem] = std::from_chars(line.data() + open + 1, line.data() + close, number);
  if (problem != std::errc{} || stop != line.data() + close || number == 0) return std::nullopt;
  const auto file = std::find_if(sources.begin(), sources.end(), [&](const SourceFile& s) { return s.name == line.substr(0, open); });
  if (file == sources.end()) return std::nullopt;
  return Location{&*file, number};
}

constexpr std::size_t kQuotedErrors = 4;
constexpr std::size_t kContextLines = 2;
constexpr std::size_t kLongestLine = 200;

}  // namespace

std::string readable_log(std::string_view log) {
  std::string text;
  text.reserve(log.size());
  for (const char c : log) {
    const char shown = c == '\0' ? '\n' : c;
    if (shown == '\n' && (text.empty() || text.ends_with("\n\n"))) continue;
    text += shown;
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::optional<std::string> resource_refusal(std::string_view log) {
  const std::string text = readable_log(log);
  for (const std::string_view line : lines_of(text)) {
    const auto says = [&line](std::string_view words) { return line.find(words) != std::string_view::npos; };
    if (!says("ptxas") && !says("nvlink")) continue;
    const bool shared = says("uses too much shared data");
    const bool registers = says("nsufficient registers") || says("requires more registers");
    if (shared || registers) return std::string(line);
  }
  return std::nullopt;
}

std::optional<Spills> spills(std::string_view log) {
  std::optional<Spills> sum;
  const std::string text = readable_log(log);
  for (const std::string_view line : lines_of(text)) {
    const auto stores = number_before(line, " bytes spill stores");
    const auto loads = number_before(line, " bytes spill loads");
    if (!stores || !loads) continue;
    if (!sum) sum.emplace();
    sum->stores = sum->stores + Bytes{*stores};
    sum->loads = sum->loads + Bytes{*loads};
  }
  return sum;
}

std::string quote_error_lines(std::string_view log, std::span<const SourceFile> sources) {
  std::string quoted;
  std::set<std::pair<const SourceFile*, std::size_t>> seen;
  const std::string text = readable_log(log);
  for (const std::string_view line : lines_of(text)) {
    const auto location = error_location(line, sources);
    if (!location || !seen.insert({location->file, location->line}).second) continue;
    const auto source = lines_of(location->file->content);
    if (location->line > source.size()) continue;
    quoted += fmt::format("{}{}:\n", quoted.empty() ? "" : "\n", location->file->name);
    const std::size_t first = location->line > kContextLines ? location->line - kContextLines : 1;
    const std::size_t last = std::min(location->line + kContextLines, source.size());
    for (std::size_t n = first; n <= last; ++n)
      quoted += fmt::format("{} {:>5} | {}\n", n == location->line ? '>' : ' ', n, source[n - 1].substr(0, kLongestLine));
    if (seen.size() == kQuotedErrors) break;
  }
  return quoted;
}

}  // namespace kernwright
