#include "recording/record_settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string>

#include "core/byte_size.hpp"

namespace kernwright {
namespace {

constexpr std::string_view kRecordedOp = "sparse_mla";
constexpr int kMostCalls = 1'000'000;

}  // namespace

Result<RecordOptions> parse_record(std::string_view text) {
  const auto off = [&](const std::string& why) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}': {}; legal is OP:CALLS:FOLDER, such as sparse_mla:3:/tmp/recordings", text.substr(0, 200), why));
  };
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return off("it has not three parts");
  RecordOptions options;
  options.op = text.substr(0, first);
  const std::string_view calls = text.substr(first + 1, second - first - 1);
  const auto [end, problem] = std::from_chars(calls.data(), calls.data() + calls.size(), options.calls);
  if (problem != std::errc{} || end != calls.data() + calls.size()) return off(fmt::format("'{}' is no number of calls", calls));
  options.folder = text.substr(second + 1);
  if (auto checked = check_record(options); !checked) return off(checked.error().message);
  return options;
}

Result<> check_record(const RecordOptions& options) {
  if (options.op != kRecordedOp) {
    return fail(ErrorCode::invalid_argument, fmt::format("the op is '{}', and only {}'s calls can be recorded", options.op, kRecordedOp));
  }
  if (options.calls < 1 || options.calls > kMostCalls) {
    return fail(ErrorCode::invalid_argument, fmt::format("the number of calls is {}, and 1 to {} are legal", options.calls, kMostCalls));
  }
  if (options.folder.empty()) return fail(ErrorCode::invalid_argument, "no folder is named");
  return {};
}

std::optional<RecordOptions> record_settings(const std::optional<RecordOptions>& options, const Logger& logger) {
  if (options) return options;
  const char* const text = std::getenv("KERNWRIGHT_RECORD");
  if (text == nullptr || *text == '\0') return std::nullopt;
  auto parsed = parse_record(text);
  if (!parsed) {
    logger(LogLevel::warn, fmt::format("KERNWRIGHT_RECORD={}. Nothing is recorded", parsed.error().message));
    return std::nullopt;
  }
  if (const char* const limit = std::getenv("KERNWRIGHT_RECORD_LIMIT"); limit != nullptr && *limit != '\0') {
    const auto bytes = parse_byte_size(limit);
    if (!bytes) {
      logger(LogLevel::warn, fmt::format("KERNWRIGHT_RECORD_LIMIT={}: {}. Nothing is recorded", limit, bytes.error().message));
      return std::nullopt;
    }
    parsed->limit = *bytes;
  }
  return std::move(*parsed);
}

}  // namespace kernwright
