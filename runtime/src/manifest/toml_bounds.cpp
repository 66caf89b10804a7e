#include "manifest/toml_bounds.hpp"

namespace kernwright {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

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

std::optional<TomlObjection> find_toml_objection(std::string_view text, int levels) {
  const auto too_deep = [&](int line) {
    return TomlObjection{line, "brackets or dotted keys nest deeper than " + std::to_string(levels) + " levels"};
  };
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
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
        if (++brackets > levels) return too_deep(line);
        break;
      case ']':
      case '}':
        dots = 0;
        if (brackets > 0) --brackets;
        break;
      case '=':
      case ',': dots = 0; break;
      case '.':
        if (++dots >= levels) return too_deep(line);
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x80) {
          return TomlObjection{line,
                               "a character outside ASCII stands outside of strings and comments; put a key that holds it into quotes"};
        }
    }
    ++at;
  }
  return std::nullopt;
}

}  // namespace kernwright
