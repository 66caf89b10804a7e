#include "kernwright/tile.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace kernwright;

TEST_CASE("tile: text and parse are inverse") {
  auto tile = Tile::parse("mma:m64n32s2w8");
  REQUIRE(tile);
  CHECK(tile->variant == "mma");
  CHECK(tile->block_m == 64);
  CHECK(tile->block_n == 32);
  CHECK(tile->stages == 2);
  CHECK(tile->warps == 8);
  CHECK(tile->text() == "mma:m64n32s2w8");
}

TEST_CASE("tile: everything else is refused with the form") {
  for (const char* wrong :
       {"", "mma", "mma:", ":m64n32s2w8", "mma:m64n32s2", "mma:m64n32s2w8 ", "mma:m0n32s2w8", "mma:m-1n32s2w8", "mma:m64n32w8s2",
        "mma:m064n32s2w8", "mma:m99999999999n32s2w8", "2mma:m64n32s2w8", "MMA:m64n32s2w8", "m m:m64n32s2w8", "mma:m64n32s2w8x"}) {
    CAPTURE(wrong);
    auto tile = Tile::parse(wrong);
    REQUIRE_FALSE(tile);
    CHECK(tile.error().code == ErrorCode::invalid_argument);
    CHECK(tile.error().message.find("mma:m64n32s2w8") != std::string::npos);
  }
}
