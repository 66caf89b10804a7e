#include "manifest/toml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "manifest/utf8.hpp"

namespace kernwright {
namespace {

constexpr std::size_t kMostQuotedBytes = 80;

}  // namespace

std::string describe(const TomlValue& value) {
  if (const auto* text = value.string()) {
    const bool long_text = text->size() > kMostQuotedBytes;
    return fmt::format("the string {}{}", toml_quote(std::string_view(*text).substr(0, kMostQuotedBytes)), long_text ? "…" : "");
  }
  if (const auto* number = value.integer()) return fmt::format("the integer {}", *number);
  if (const auto* real = std::get_if<double>(&value.value)) return fmt::format("the float {}", *real);
  if (const auto* flag = value.boolean()) return *flag ? "the boolean true" : "the boolean false";
  if (const auto* items = value.array()) return fmt::format("an array of {}", items->size());
  return "a table";
}

TomlReader::TomlReader(const TomlTable& table, std::string file_name, std::string where, int line)
    : table_(&table), file_name_(std::move(file_name)), where_(std::move(where)), line_(line) {}

const TomlValue* TomlReader::find(std::string_view key) {
  if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) seen_.emplace_back(key);
  const auto at = table_->find(key);
  return at == table_->end() ? nullptr : &at->second;
}

Error TomlReader::error(std::string_view key, std::string_view problem) const {
  const auto at = table_->find(key);
  const int line = at == table_->end() ? line_ : at->second.line;
  std::string message = file_name_;
  if (line > 0) message += fmt::format(":{}", line);
  message += ": ";
  if (!where_.empty()) message += where_ + ": ";
  if (!key.empty()) message += fmt::format("key '{}' ", key);
  message += problem;
  return Error{ErrorCode::malformed, std::move(message), {}};
}

tl::unexpected<Error> TomlReader::wrong_type(std::string_view key, const TomlValue& value, std::string_view wanted) const {
  return fail(error(key, fmt::format("is {}; it must be {}", describe(value), wanted)));
}

Result<std::string> TomlReader::string(std::string_view key) {
  auto value = optional_string(key);
  if (!value) return fail(std::move(value.error()));
  if (!*value) return fail(error(key, "is missing; it must be a string"));
  return std::move(**value);
}

Result<std::int64_t> TomlReader::integer(std::string_view key) {
  auto value = optional_integer(key);
  if (!value) return fail(std::move(value.error()));
  if (!*value) return fail(error(key, "is missing; it must be an integer"));
  return **value;
}

Result<std::optional<std::string>> TomlReader::optional_string(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = value->string()) return *text;
  return wrong_type(key, *value, "a string");
}

Result<std::optional<std::int64_t>> TomlReader::optional_integer(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = value->integer()) return *number;
  return wrong_type(key, *value, "an integer");
}

Result<std::optional<double>> TomlReader::optional_number(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = value->real()) return *number;
  if (const auto* number = value->integer()) return static_cast<double>(*number);
  return wrong_type(key, *value, "a number");
}

Result<std::optional<bool>> TomlReader::optional_boolean(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = value->boolean()) return *flag;
  return wrong_type(key, *value, "true or false");
}

Result<std::vector<std::string>> TomlReader::strings(std::string_view key) {
  std::vector<std::string> texts;
  const TomlValue* value = find(key);
  if (value == nullptr) return texts;
  constexpr std::string_view kWanted = "an array of strings";
  if (value->array() == nullptr) return wrong_type(key, *value, kWanted);
  for (const TomlValue& item : *value->array()) {
    if (item.string() == nullptr) return fail(error(key, fmt::format("holds {}; it must be {}", describe(item), kWanted)));
    texts.push_back(*item.string());
  }
  return texts;
}

Result<std::vector<std::int64_t>> TomlReader::integers(std::string_view key) {
  std::vector<std::int64_t> numbers;
  const TomlValue* value = find(key);
  if (value == nullptr) return numbers;
  constexpr std::string_view kWanted = "an array of integers";
  if (value->array() == nullptr) return wrong_type(key, *value, kWanted);
  for (const TomlValue& item : *value->array()) {
    if (item.integer() == nullptr) return fail(error(key, fmt::format("holds {}; it must be {}", describe(item), kWanted)));
    numbers.push_back(*item.integer());
  }
  return numbers;
}

Result<std::vector<TomlReader>> TomlReader::tables(std::string_view key) {
  std::vector<TomlReader> readers;
  const TomlValue* value = find(key);
  if (value == nullptr) return readers;
  const std::string wanted = fmt::format("tables, each begun by [[{}]]", key);
  if (value->array() == nullptr) return wrong_type(key, *value, wanted);
  for (const TomlValue& item : *value->array()) {
    if (item.table() == nullptr) return fail(error(key, fmt::format("holds {}; it must be {}", describe(item), wanted)));
    readers.emplace_back(*item.table(), file_name_, fmt::format("[[{}]] {}", key, readers.size() + 1), item.line);
  }
  return readers;
}

Result<std::optional<TomlReader>> TomlReader::optional_table(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->table() == nullptr) return wrong_type(key, *value, "a table");
  const std::string where = where_.empty() ? fmt::format("[{}]", key) : fmt::format("{}: {}", where_, key);
  return TomlReader(*value->table(), file_name_, where, value->line);
}

const TomlTable& TomlReader::raw() {
  for (const auto& [key, value] : *table_) find(key);
  return *table_;
}

Result<> TomlReader::require_format(std::int64_t version) {
  auto format = integer("format");
  if (!format) return fail(std::move(format.error()));
  if (*format != version) return fail(error("format", fmt::format("is {}; this version reads format {}", *format, version)));
  return {};
}

Result<> TomlReader::finish() const {
  for (const auto& [key, value] : *table_) {
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) continue;
    std::string known;
    for (const std::string& name : seen_) known += (known.empty() ? "" : ", ") + name;
    return fail(error(key, fmt::format("is not known here; known are: {}", known)));
  }
  return {};
}

std::string toml_quote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0) {
      quoted += "\\uFFFD";
    } else if (c == '"' || c == '\\') {
      quoted += {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", c);
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + '"';
}

}  // namespace kernwright
