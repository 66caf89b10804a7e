#include "kernwright/specialisation.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace kernwright;

TEST_CASE("specialisation: keeps its order and replaces by name") {
  Specialisation s;
  s.set("heads", 8).set("dtype", DType::bf16).set("heads", 16);
  CHECK(s.text() == "heads=16 dtype=bf16");
  CHECK(s.get("heads") == ParameterValue(std::int64_t{16}));
  CHECK_FALSE(s.get("topk"));
  CHECK(s != Specialisation{}.set("dtype", DType::bf16).set("heads", 16));
}

TEST_CASE("specialisation: its text is read back") {
  const Specialisation s =
      Specialisation{}.set("heads", 8).set("dtype", DType::bf16).set("low", INT64_MIN).set("high", INT64_MAX).set("_x9", DType::u8);
  auto again = Specialisation::parse(s.text());
  REQUIRE(again);
  CHECK(*again == s);
  CHECK(*Specialisation::parse("  heads=8\t group_size=-1\n") == Specialisation{}.set("heads", 8).set("group_size", -1));
  CHECK(Specialisation::parse("")->items().empty());
}

TEST_CASE("specialisation: a part that is none is named") {
  const auto refused = [](std::string_view text, std::string_view part) {
    const auto parsed = Specialisation::parse(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(parsed.error().message.find(part) != std::string::npos, parsed.error().message);
    CHECK(parsed.error().message.find("heads=8") != std::string::npos);
  };
  refused("heads", "'heads' is no name=value");
  refused("heads=8 =4", "'=4' is no name=value");
  refused("heads=", "'heads=' has a value that is neither");
  refused("heads=8x", "'heads=8x'");
  refused("heads=9223372036854775808", "'heads=9223372036854775808'");
  refused("dtype=BF16", "'dtype=BF16'");
  refused("heads=8,dtype=bf16", "'heads=8,dtype=bf16'");
  refused("heads=8 heads=8", "for the second time");
}
