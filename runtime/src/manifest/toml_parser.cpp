// The only translation unit that includes toml++. Header-only; without NDEBUG it asserts on text such as "[".
#ifndef NDEBUG
#define NDEBUG
#endif
#define TOML_EXCEPTIONS 0
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#undef TOML_SHARED_LIB
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <exception>
#include <sstream>

#include "manifest/toml_bounds.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

int line_of(const toml::node& node) {
  return static_cast<int>(node.source().begin.line);
}

template <class T>
std::string written(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

/// nullopt where tables and arrays nest deeper than `levels`.
std::optional<TomlValue> convert(const toml::node& node, int levels);

std::optional<TomlTable> convert_table(const toml::table& from, int levels) {
  if (levels == 0) return std::nullopt;
  TomlTable table;
  for (const auto& [key, node] : from) {
    auto value = convert(node, levels - 1);
    if (!value) return std::nullopt;
    table.emplace(std::string(key.str()), std::move(*value));
  }
  return table;
}

std::optional<TomlValue> convert(const toml::node& node, int levels) {
  TomlValue value{{}, line_of(node)};
  if (const auto* string = node.as_string()) {
    value.value = string->get();
  } else if (const auto* integer = node.as_integer()) {
    value.value = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.value = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.value = boolean->get();
  } else if (const auto* date = node.as_date()) {
    value.value = written(date->get());
  } else if (const auto* time = node.as_time()) {
    value.value = written(time->get());
  } else if (const auto* moment = node.as_date_time()) {
    value.value = written(moment->get());
  } else if (const auto* items = node.as_array()) {
    if (levels == 0) return std::nullopt;
    TomlArray array;
    for (const toml::node& item : *items) {
      auto converted = convert(item, levels - 1);
      if (!converted) return std::nullopt;
      array.push_back(std::move(*converted));
    }
    value.value = std::move(array);
  } else if (const auto* inner = node.as_table()) {
    auto table = convert_table(*inner, levels);
    if (!table) return std::nullopt;
    value.value = std::move(*table);
  }
  return value;
}

}  // namespace

Result<TomlTable> parse_toml(std::string_view text, std::string_view file_name) {
  if (text.size() > kMostTomlBytes) {
    return fail(ErrorCode::malformed, fmt::format("{}: {} bytes of TOML, at most {} are read", file_name, text.size(), kMostTomlBytes));
  }
  if (const int line = first_line_nested_deeper(text, kMostTomlLevels)) {
    return fail(ErrorCode::malformed,
                fmt::format("{}:{}: brackets or dotted keys nest deeper than {} levels", file_name, line, kMostTomlLevels));
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::malformed, fmt::format("{}: a NUL byte at offset {}: this is not a text file", file_name, nul));
  }
  try {
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      const toml::parse_error& problem = parsed.error();
      return fail(ErrorCode::malformed, fmt::format("{}:{}:{}: {}", file_name, problem.source().begin.line, problem.source().begin.column,
                                                    problem.description()));
    }
    auto table = convert_table(parsed.table(), kMostTomlLevels);
    if (!table)
      return fail(ErrorCode::malformed, fmt::format("{}: tables and arrays nest deeper than {} levels", file_name, kMostTomlLevels));
    return std::move(*table);
  } catch (const std::exception& problem) {
    // With TOML_EXCEPTIONS=0 only the standard library may throw, for want of memory.
    return fail(ErrorCode::internal, fmt::format("{}: reading TOML failed: {}", file_name, problem.what()));
  }
}

}  // namespace kernwright
