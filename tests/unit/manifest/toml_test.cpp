#include <doctest/doctest.h>

#include "manifest/toml_bounds.hpp"
#include "manifest/toml_reader.hpp"

using namespace kernwright;

namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string repeated(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

}  // namespace

TEST_CASE("toml: values, tables and lines") {
  const auto table =
      parse_toml("text = \"a\\tb\"\nnumber = -3\nreal = 0.5\nflag = true\nday = 2026-01-02\n[[row]]\nlist = [1, 2]\n[[row]]\n", "f.toml");
  REQUIRE(table);
  CHECK(*table->find("text")->second.string() == "a\tb");
  CHECK(*table->find("number")->second.integer() == -3);
  CHECK(std::get<double>(table->find("real")->second.value) == 0.5);
  CHECK(*table->find("flag")->second.boolean());
  CHECK(*table->find("day")->second.string() == "2026-01-02");
  CHECK(table->find("flag")->second.line == 4);
  const auto& rows = *table->find("row")->second.array();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].table()->find("list")->second.array()->size() == 2);
  CHECK(rows[0].table()->find("list")->second.line == 7);
}

TEST_CASE("toml: hostile text is an error that names the file and the line, never a crash") {
  const std::vector<std::pair<std::string, std::string>> texts{
      {"[", "f.toml:1"},
      {"\n\n[[", "f.toml:3"},
      {"a", "f.toml:1"},
      {"a =", "f.toml:1"},
      {"a = \"", "f.toml:1"},
      {"a = '''", "f.toml"},
      {"a = [", "f.toml:1"},
      {"a = {", "f.toml:1"},
      {"a = 1\na = 2\n", "f.toml:2"},
      {"a = 99999999999999999999", "f.toml:1"},
      {"a = 0x", "f.toml:1"},
      {"a = 2026-13-45", "f.toml:1"},
      {std::string("a = 1\n\0b = 2", 12), "NUL byte at offset 6"},
      {"a = \"\xff\xfe\"", "f.toml"},
      {"\xc3", "f.toml"},
      {"a = \"\\uD800\"", "f.toml:1"},
      {"a = " + repeated("[", 33), "f.toml:1: brackets"},
      {"a = " + repeated("[", 200'000), "f.toml:1: brackets"},
      {"\na = " + repeated("{ a = ", 100'000), "f.toml:2: brackets"},
      {repeated("a.", 300'000) + "a = 1", "f.toml:1: brackets or dotted keys"},
      {"[" + repeated("a.", 300'000) + "a]", "f.toml:1: brackets or dotted keys"},
      {"x = \"\"\"\n\n\"\"\"\n" + repeated("a . ", 33) + "a = 1", "f.toml:4: brackets or dotted keys"},
      {repeated("'a'.", 33) + "a = 1", "dotted keys"},
      {"a." + repeated("b.", 20) + "c = { " + repeated("d.", 20) + "e = 1 }", "deeper than 32"},
      {"[" + repeated("a.", 20) + "b]\n" + repeated("c.", 20) + "d = 1", "deeper than 32"},
  };
  for (const auto& [text, part] : texts) {
    CAPTURE(text.substr(0, 60));
    const auto table = parse_toml(text, "f.toml");
    REQUIRE_FALSE(table);
    CHECK(table.error().code == ErrorCode::malformed);
    CHECK(holds(table.error().message, "f.toml"));
    CHECK_MESSAGE(holds(table.error().message, part), table.error().message);
  }
}

TEST_CASE("toml: every prefix and every changed byte of a text is answered") {
  const std::string text =
      "format = 1\n[[tile]]\ntemplate = 'a/b' # x\nwhen = { heads = 8, d = \"bf16\" }\nt = \"\"\"\nm\n\"\"\"\nd = "
      "1979-05-27T07:32:00Z\n[x.\"y z\".w]\nv = [0x1f, 1e3, [true]]\n";
  REQUIRE(parse_toml(text, "f"));
  for (std::size_t length = 0; length <= text.size(); ++length) (void)parse_toml(std::string_view(text).substr(0, length), "f");
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char byte : {'[', '"', '\'', '.', '\n', '\\', '\xff', '{', '}', '='}) {
      std::string changed = text;
      changed[at] = byte;
      (void)parse_toml(changed, "f");
    }
  }
}

TEST_CASE("toml: size and depth at their limits are read") {
  std::string text = "a = 1 #";
  text.resize(kMostTomlBytes, 'x');
  CHECK(parse_toml(text, "f"));
  const auto larger = parse_toml(text + "x", "f");
  REQUIRE_FALSE(larger);
  CHECK(holds(larger.error().message, "1048577 bytes"));

  const int levels = kMostTomlLevels - 1;  // the document itself is one
  CHECK(parse_toml("a = " + repeated("[", levels) + repeated("]", levels), "f"));
  CHECK_FALSE(parse_toml("a = " + repeated("[", levels + 1) + repeated("]", levels + 1), "f"));
  CHECK(parse_toml(repeated("a.", levels) + "a = 1", "f"));
}

TEST_CASE("toml: brackets and dots in strings and comments do not count as depth") {
  const auto line_of = [](const std::string& text) {
    const auto objection = find_toml_objection(text, 8);
    return objection ? objection->line : 0;
  };
  CHECK(line_of("a = \"" + repeated("[.", 100) + "\" # " + repeated("[", 100) + "\nb = 1") == 0);
  CHECK(line_of("a = '''" + repeated("[.\n", 100) + "'''\nb = 1") == 0);
  CHECK(line_of("a = \"\\\"" + repeated("[", 100) + "\"\nb = 1") == 0);
  CHECK(line_of("a = [" + repeated("1.5, ", 100) + "]") == 0);
  CHECK(line_of("a = 1\nb = " + repeated("[", 9)) == 2);
  // The string ends at its quotes: what follows is seen again.
  CHECK(line_of("a = \"\"\"x\"\"\"\"\"\nb = " + repeated("[", 9)) == 2);
  CHECK(line_of("a = 'x\\'\nb = " + repeated("[", 9)) == 2);
}

TEST_CASE("toml: characters outside ASCII are legal in strings and comments, and after a byte order mark") {
  CHECK(parse_toml("\xef\xbb\xbf\"\xcf\x8b\" = '\xcf\x8b' # \xcf\x8b\na = \"\"\"\\\n  \xcf\x8b\"\"\"", "f"));
  for (const char* text : {"\xcf\x8b = 1", "a\xcf\x8b = 1", "a = \xcf\x8b", "a = 1\n\xef\xb8\xbf\x04", "a\xe3\x80\x80= 1"}) {
    const auto table = parse_toml(text, "f");
    REQUIRE_FALSE(table);
    CHECK(holds(table.error().message, "outside ASCII"));
  }
}

TEST_CASE("toml: a quoted string reads back") {
  const std::vector<std::string> texts{
      "", "plain", "a\"b\\c", "line\nline\ttab\r", std::string("nul\0end", 7), "\x01\x1f\x7f", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"};
  for (const std::string& text : texts) {
    const auto table = parse_toml("a = " + toml_quote(text), "f");
    REQUIRE_MESSAGE(table, (table ? "" : table.error().text()));
    CHECK(*table->find("a")->second.string() == text);
  }
  // Bytes that are not UTF-8: a lone continuation, an overlong form, a surrogate, a cut sequence.
  for (const std::string& text : {std::string("\x80"), std::string("\xc0\xaf"), std::string("\xed\xa0\x80"), std::string("\xe2\x82")}) {
    const auto table = parse_toml("a = " + toml_quote(text), "f");
    REQUIRE_MESSAGE(table, (table ? "" : table.error().text()));
    CHECK(table->find("a")->second.string()->starts_with("\xef\xbf\xbd"));
  }
}

TEST_CASE("toml: the typed reader names file, line, key, what came and what is legal") {
  const auto table = parse_toml("format = 2\nname = 3\nlist = [1, \"x\"]\nflag = \"yes\"\nrows = 1\nmystery = {}\n", "f.toml");
  REQUIRE(table);
  TomlReader reader(*table, "f.toml", "");
  CHECK(reader.require_format(1).error().message == "f.toml:1: key 'format' is 2; this version reads format 1");
  CHECK(reader.string("name").error().message == "f.toml:2: key 'name' is the integer 3; it must be a string");
  CHECK(reader.integers("list").error().message == "f.toml:3: key 'list' holds the string \"x\"; it must be an array of integers");
  CHECK(holds(reader.strings("list").error().message, "holds the integer 1"));
  CHECK(holds(reader.optional_boolean("flag").error().message, "it must be true or false"));
  CHECK(holds(reader.tables("rows").error().message, "[[rows]]"));
  CHECK(reader.integer("absent").error().message == "f.toml: key 'absent' is missing; it must be an integer");
  CHECK(*reader.optional_string("absent") == std::nullopt);
  CHECK(reader.strings("absent")->empty());
  const auto finished = reader.finish();
  REQUIRE_FALSE(finished);
  CHECK(finished.error().message == "f.toml:6: key 'mystery' is not known here; known are: format, name, list, flag, rows, absent");
}
