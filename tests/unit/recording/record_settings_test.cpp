#include "recording/record_settings.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "fixtures/log_lines.hpp"
#include "kernwright/runtime.hpp"

using namespace kernwright;

namespace {

/// KERNWRIGHT_RECORD and its limit for the time of a test.
class RecordVariables {
 public:
  RecordVariables(const char* record, const char* limit) {
    ::setenv("KERNWRIGHT_RECORD", record, 1);
    ::setenv("KERNWRIGHT_RECORD_LIMIT", limit, 1);
  }
  RecordVariables(const RecordVariables&) = delete;
  RecordVariables& operator=(const RecordVariables&) = delete;
  ~RecordVariables() {
    ::unsetenv("KERNWRIGHT_RECORD");
    ::unsetenv("KERNWRIGHT_RECORD_LIMIT");
  }
};

}  // namespace

TEST_CASE("record settings: op, calls and folder, which may hold colons") {
  const auto parsed = parse_record("sparse_mla:3:/a:b/c");
  REQUIRE(parsed);
  CHECK(parsed->op == "sparse_mla");
  CHECK(parsed->calls == 3);
  CHECK(parsed->folder == "/a:b/c");
}

TEST_CASE("record settings: words that are off say what came and what is legal") {
  for (const auto& [text, part] :
       {std::pair{"sparse_mla", "three parts"}, std::pair{"sparse_mla:3", "three parts"},
        std::pair{"sparse_mla:some:/x", "'some' is no number"}, std::pair{"sparse_mla:3x:/x", "'3x' is no number"},
        std::pair{"sparse_mla:0:/x", "the number of calls is 0"}, std::pair{"sparse_mla:3:", "no folder"},
        std::pair{"paged:3:/x", "the op is 'paged'"}}) {
    const auto parsed = parse_record(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(parsed.error().message.find(part) != std::string::npos, parsed.error().message);
    CHECK_MESSAGE(parsed.error().message.find("OP:CALLS:FOLDER") != std::string::npos, parsed.error().message);
  }
}

TEST_CASE("record settings: variables that are off are one warning and no error, the option of the interface is an error") {
  tests::LogLines log;
  {
    const RecordVariables variables("sparse_mla:many:/x", "");
    CHECK_FALSE(record_settings(std::nullopt, log.logger()));
    CHECK(log.count("KERNWRIGHT_RECORD=") == 1);
    RuntimeOptions options;
    options.memory_only = true;
    CHECK(Runtime::create(options));
    CHECK(record_settings(RecordOptions{"sparse_mla", 2, "/y", mebibytes(1)}, log.logger())->folder == "/y");
  }
  {
    const RecordVariables variables("sparse_mla:2:/x", "much");
    CHECK_FALSE(record_settings(std::nullopt, log.logger()));
    CHECK(log.count("KERNWRIGHT_RECORD_LIMIT=much") == 1);
  }
  {
    const RecordVariables variables("sparse_mla:2:/x", "3M");
    const auto settings = record_settings(std::nullopt, log.logger());
    REQUIRE(settings);
    CHECK(settings->limit == mebibytes(3));
  }
  RuntimeOptions options;
  options.memory_only = true;
  options.record = RecordOptions{"sparse_mla", 0, "/y", mebibytes(1)};
  const auto refused = Runtime::create(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
}
