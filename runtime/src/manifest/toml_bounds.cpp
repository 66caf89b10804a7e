#include "manifest/toml_bounds.hpp"

namespace kernwright {
namespace {

/// Past the string that begins at `at`; a one-line string also ends at the end of its line, where the parser gives up on it.
std::size_t skip_string(std::string_view text, std::size_t at, int& line) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool multi_line = text.substr(at).starts_with(three);
  at += multi_line ? 3 : 1;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      if (!multi_line) return at;
      ++line;
    } else if (c == '\\' && quote == '"') {
      if (at + 1 < text.size() && text[at + 1] != '\n') ++at;
    } else if (c == quote && (!multi_line || text.substr(at).starts_with(three))) {
      at += multi_line ? 3 : 1;
      // """" and """"": one or two quotes may stand directly before the closing three.
      if (multi_line) {
        for (int extra = 0; extra < 2 && at < text.size() && text[at] == quote; ++extra) ++at;
      }
      return at;
    }
  }
  return at;
}

}  // namespace

int first_line_nested_deeper(std::string_view text, int levels) {
  int line = 1;
  int brackets = 0;
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    switch (c) {
      case '"':
      case '\'': at = skip_string(text, at, line); continue;
      case '#':
        while (at < text.size() && text[at] != '\n') ++at;
        continue;
      case '\n':
        ++line;
        dots = 0;
        break;
      case '[':
      case '{':
        dots = 0;
        if (++brackets > levels) return line;
        break;
      case ']':
      case '}':
        dots = 0;
        if (brackets > 0) --brackets;
        break;
      case '=':
      case ',': dots = 0; break;
      case '.':
        if (++dots >= levels) return line;
        break;
      default: break;
    }
    ++at;
  }
  return 0;
}

}  // namespace kernwright
