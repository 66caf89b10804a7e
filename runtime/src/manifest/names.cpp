#include "manifest/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright {
namespace {

// [lex.key] and [lex.digraph] of C++20, and words of C++23, C and the compilers' extensions that are taken as keywords already.
constexpr std::string_view kKeywords[] = {
    "alignas",   "alignof",  "and",      "and_eq",  "asm",          "auto",       "bitand",       "bitor",         "bool",
    "break",     "case",     "catch",    "char",    "char16_t",     "char32_t",   "char8_t",      "class",         "co_await",
    "co_return", "co_yield", "compl",    "concept", "const",        "const_cast", "consteval",    "constexpr",     "constinit",
    "continue",  "decltype", "default",  "delete",  "do",           "double",     "dynamic_cast", "else",          "enum",
    "explicit",  "export",   "extern",   "false",   "float",        "for",        "friend",       "goto",          "if",
    "inline",    "int",      "long",     "mutable", "namespace",    "new",        "noexcept",     "not",           "not_eq",
    "nullptr",   "operator", "or",       "or_eq",   "private",      "protected",  "public",       "register",      "reinterpret_cast",
    "requires",  "restrict", "return",   "short",   "signed",       "sizeof",     "static",       "static_assert", "static_cast",
    "struct",    "switch",   "template", "this",    "thread_local", "throw",      "true",         "try",           "typedef",
    "typeid",    "typename", "typeof",   "union",   "unsigned",     "using",      "virtual",      "void",          "volatile",
    "wchar_t",   "while",    "xor",      "xor_eq"};

// Predefined macros without underscores, macros of common headers, and the generated header's own names.
constexpr std::string_view kTaken[] = {"linux",          "unix",     "i386",    "NULL",     "EOF",   "assert",  "errno", "defined",
                                       "main",           "kw",       "kw_plan", "kw_plans", "DType", "Variant", "Tile",  "Plan",
                                       "Specialisation", "make_plan"};

constexpr std::size_t kLongestName = 100;

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string length_problem(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kLongestName) return fmt::format("has {} bytes; at most {} are legal", name.size(), kLongestName);
  return {};
}

}  // namespace

std::string identifier_problem(std::string_view name) {
  if (auto problem = length_problem(name); !problem.empty()) return problem;
  const auto because = [&](std::string_view reason) { return fmt::format("is '{}', which {}", name, reason); };
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return is_lower(c) || is_upper(c) || is_digit(c) || c == '_'; });
  if (!plain || is_digit(name.front()) || name.front() == '_') {
    return because("cannot be an identifier; legal are letters, digits and '_', beginning with a letter");
  }
  if (name.find("__") != std::string_view::npos) return because("holds '__', a form that C++ reserves; take out one underscore");
  if (std::ranges::find(kKeywords, name) != std::end(kKeywords)) return because("is a C++ keyword; choose another name");
  if (std::ranges::find(kTaken, name) != std::end(kTaken)) {
    return because("means something else where the generated header is compiled; choose another name");
  }
  return {};
}

std::string variant_problem(std::string_view name) {
  if (auto problem = identifier_problem(name); !problem.empty()) return problem;
  if (std::ranges::any_of(name, is_upper)) {
    return fmt::format("is '{}'; a variant is written in lower case, since it stands in tiles such as mma:m64n32s2w8", name);
  }
  return {};
}

std::string virtual_name_problem(std::string_view name) {
  if (auto problem = length_problem(name); !problem.empty()) return problem;
  for (std::string_view rest = name;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    const bool plain = std::ranges::all_of(part, [](char c) { return is_lower(c) || is_digit(c) || c == '_' || c == '.' || c == '-'; });
    if (part.empty() || !plain || part.front() == '.' || part.front() == '-') {
      return fmt::format(
          "is '{}'; legal are parts of a-z, 0-9, '_', '.' and '-' joined by '/', none empty and none beginning with '.' or '-', for "
          "example "
          "sparse_mla/prefill",
          name);
    }
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace kernwright
