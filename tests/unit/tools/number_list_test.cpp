#include "support/number_list.hpp"

#include <doctest/doctest.h>

using namespace kernwright;
using support::parse_numbers;

TEST_CASE("number list: numbers and ranges, each once, in the order given") {
  CHECK(*parse_numbers("--heads", "8", 1, 128) == std::vector{8});
  CHECK(*parse_numbers("--heads", "16,8,16", 1, 128) == std::vector{16, 8});
  CHECK(*parse_numbers("--heads", "1-4", 1, 128) == std::vector{1, 2, 3, 4});
  CHECK(*parse_numbers("--heads", "8,6-9,128-128", 1, 128) == std::vector{8, 6, 7, 9, 128});
  CHECK(parse_numbers("--heads", "1-128", 1, 128)->size() == 128);
  CHECK(*parse_numbers("--x", "-2--1,0", -2, 3) == std::vector{-2, -1, 0});
}

TEST_CASE("number list: the part that is off is named, and what is legal") {
  const auto refused = [](const char* words, std::string_view part) {
    const auto numbers = parse_numbers("--heads", words, 1, 128);
    CAPTURE(words);
    REQUIRE_FALSE(numbers);
    CHECK(numbers.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(numbers.error().message.find(part) != std::string::npos, numbers.error().message);
    CHECK(numbers.error().message.find("numbers from 1 to 128 and ranges of them, such as 1,2-128") != std::string::npos);
  };
  refused("", "is empty");
  refused("8,", "'' is no number and no range");
  refused("8,x", "'x' is no number and no range");
  refused("8x", "'8x'");
  refused("1-", "'1-'");
  refused("-5", "'-5' is out of range");
  refused("1-2-3", "'1-2-3'");
  refused("0", "'0' is out of range");
  refused("100-129", "'100-129' is out of range");
  refused("0-3", "'0-3' is out of range");
  refused("9-8", "'9-8' ends before it begins");
  refused("1-99999999999", "'1-99999999999'");
  refused(" 8", "' 8'");
}
