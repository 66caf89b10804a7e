// Reads TOML behind our own interface: bounded, never aborting, with errors that name the file, the line and the key.
// The only translation unit that includes toml++ is toml_parser.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright {

struct TomlValue;
using TomlArray = std::vector<TomlValue>;
using TomlTable = std::map<std::string, TomlValue, std::less<>>;

struct TomlValue {
  std::variant<std::string, std::int64_t, double, bool, TomlArray, TomlTable> value;
  int line = 0;

  [[nodiscard]] const std::string* string() const { return std::get_if<std::string>(&value); }
  [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value); }
  [[nodiscard]] const double* real() const { return std::get_if<double>(&value); }
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&value); }
  [[nodiscard]] const TomlArray* array() const { return std::get_if<TomlArray>(&value); }
  [[nodiscard]] const TomlTable* table() const { return std::get_if<TomlTable>(&value); }
};

/// What a value is, for messages: "the integer 3", "an array of 2", a long string cut short.
std::string describe(const TomlValue& value);

/// At most 1 MiB of text and 32 levels. `file_name` is for messages. Dates and times are read as strings.
Result<TomlTable> parse_toml(std::string_view text, std::string_view file_name);

/// Borrows the table. Typed access that collects "file:line: key 'x' …" errors. Unknown keys are errors too (call finish()).
class TomlReader {
 public:
  TomlReader(const TomlTable& table, std::string file_name, std::string where, int line = 0);
  Result<std::string> string(std::string_view key);
  Result<std::int64_t> integer(std::string_view key);
  Result<std::optional<std::string>> optional_string(std::string_view key);
  Result<std::optional<std::int64_t>> optional_integer(std::string_view key);
  Result<std::optional<double>> optional_number(std::string_view key);  ///< An integer counts as one.
  Result<std::optional<bool>> optional_boolean(std::string_view key);
  Result<std::vector<std::string>> strings(std::string_view key);    ///< Absent: empty.
  Result<std::vector<std::int64_t>> integers(std::string_view key);  ///< Absent: empty.
  Result<std::vector<TomlReader>> tables(std::string_view key);      ///< [[key]]; absent: empty.
  Result<std::optional<TomlReader>> optional_table(std::string_view key);
  /// All keys and values of this table as they stand, marking them read.
  const TomlTable& raw();
  /// invalid `format` unless it equals `version`.
  Result<> require_format(std::int64_t version);
  /// malformed where a key was never asked for.
  Result<> finish() const;
  [[nodiscard]] Error error(std::string_view key, std::string_view problem) const;
  [[nodiscard]] int line() const noexcept { return line_; }  ///< Where the table begins; 0: not known.

 private:
  const TomlValue* find(std::string_view key);
  [[nodiscard]] tl::unexpected<Error> wrong_type(std::string_view key, const TomlValue& value, std::string_view wanted) const;

  const TomlTable* table_;
  std::string file_name_;
  std::string where_;
  int line_;
  std::vector<std::string> seen_;
};

/// A TOML basic string with its escapes, quotes included. A byte that is not UTF-8 is written as U+FFFD.
std::string toml_quote(std::string_view text);

}  // namespace kernwright
