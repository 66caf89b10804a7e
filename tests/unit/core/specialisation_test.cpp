#include "kernwright/specialisation.hpp"

#include <doctest/doctest.h>

using namespace kernwright;

TEST_CASE("specialisation: keeps its order and replaces by name") {
  Specialisation s;
  s.set("heads", 8).set("dtype", DType::bf16).set("heads", 16);
  CHECK(s.text() == "heads=16 dtype=bf16");
  CHECK(s.get("heads") == ParameterValue(std::int64_t{16}));
  CHECK_FALSE(s.get("topk"));
  CHECK(s != Specialisation{}.set("dtype", DType::bf16).set("heads", 16));
}
