// Spans of time and tables as people read them.
#include <doctest/doctest.h>

#include "support/duration.hpp"
#include "support/text_table.hpp"

using namespace kernwright;
using namespace kernwright::support;

TEST_CASE("durations: ages are whole units, rounded down") {
  CHECK(format_age(-5) == "0 s");
  CHECK(format_age(0) == "0 s");
  CHECK(format_age(59) == "59 s");
  CHECK(format_age(60) == "1 min");
  CHECK(format_age(3599) == "59 min");
  CHECK(format_age(3600) == "1 h");
  CHECK(format_age(47 * 3600 + 3599) == "47 h");
  CHECK(format_age(48 * 3600) == "2 d");
  CHECK(format_age(std::int64_t{400} * 86'400) == "400 d");
}

TEST_CASE("durations: what people write is read, and what they should not have written is refused") {
  CHECK(*parse_duration("30d") == 30 * 86'400);
  CHECK(*parse_duration("12h") == 43'200);
  CHECK(*parse_duration("90m") == 5400);
  CHECK(*parse_duration("45s") == 45);
  CHECK(*parse_duration("0d") == 0);
  for (const char* text : {"", "30", "d", "-1d", "1.5h", "1 d", "1w", "1dd", "9223372036854775807d", "99999999999999999999d", "30D"}) {
    CAPTURE(text);
    const auto parsed = parse_duration(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::invalid_argument);
    CHECK(parsed.error().message.find("30d") != std::string::npos);
    CHECK(parsed.error().message.find(std::string("'").append(text).append("'")) != std::string::npos);
  }
}

TEST_CASE("tables: columns are as wide as their widest cell, in characters, across headings") {
  TextTable table({{"key", TextTable::Align::left}, {"size", TextTable::Align::right}, {"note", TextTable::Align::left}}, 2);
  CHECK(table.text().empty());
  table.heading("group one, which may be wider than any row");
  table.row({"a", "1 B", "x"});
  table.row({"longer", "1,000 KiB", ""});
  table.heading("two");
  table.row({"caf\xc3\xa9", "22", "y"});
  CHECK(table.text() ==
        "  key          size  note\n"
        "group one, which may be wider than any row\n"
        "  a             1 B  x\n"
        "  longer  1,000 KiB\n"
        "two\n"
        "  caf\xc3\xa9           22  y\n");
}

TEST_CASE("tables: control characters cannot reach a terminal") {
  CHECK(printable("a\x1b[31mb\n\tc\x7f") == "a?[31mb??c?");
  CHECK(printable("caf\xc3\xa9 \xff") == "caf\xc3\xa9 \xff");
  TextTable table({{"key", TextTable::Align::left}}, 0);
  table.heading("x\ny");
  table.row({"a\rb"});
  CHECK(table.text() == "key\nx?y\na?b\n");
}
