#include "kernwright/result.hpp"

#include <doctest/doctest.h>

using namespace kernwright;

TEST_CASE("error: steps stand outermost first") {
  Error error{ErrorCode::io, "disk is full", {}};
  error = std::move(error).within("writing an entry");
  error = std::move(error).within("preparing a kernel");
  CHECK(error.text() == "io: disk is full (while preparing a kernel > writing an entry)");
}

TEST_CASE("error: a code's name is its enumerator") {
  CHECK(to_string(ErrorCode::does_not_fit) == "does_not_fit");
  CHECK(to_string(ErrorCode::compiler_unavailable) == "compiler_unavailable");
}
