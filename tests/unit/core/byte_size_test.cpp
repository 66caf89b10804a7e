#include "core/byte_size.hpp"

#include <doctest/doctest.h>

using namespace kernwright;

TEST_CASE("byte size: plain numbers and powers of 1024") {
  CHECK(parse_byte_size("0") == Bytes{0});
  CHECK(parse_byte_size("1536") == Bytes{1536});
  CHECK(parse_byte_size("3K") == Bytes{3072});
  CHECK(parse_byte_size("2M") == Bytes{2'097'152});
  CHECK(parse_byte_size("1G") == Bytes{1'073'741'824});
  CHECK(parse_byte_size("2T") == Bytes{2'199'023'255'552});
  CHECK(parse_byte_size("18446744073709551615") == Bytes{18'446'744'073'709'551'615U});
}

TEST_CASE("byte size: anything else is refused with what is legal") {
  for (const char* wrong : {"", "K", "-1", "1.5G", "1k", "1KB", "1 K", " 1", "1GG", "18446744073709551616", "16777216T"}) {
    CAPTURE(wrong);
    const auto size = parse_byte_size(wrong);
    REQUIRE_FALSE(size);
    CHECK(size.error().code == ErrorCode::invalid_argument);
    CHECK(size.error().message.find("K, M, G or T") != std::string::npos);
  }
}
