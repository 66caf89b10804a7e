#include <doctest/doctest.h>

#include <string>

#include "templates/template_set.hpp"

using namespace kernwright;

TEST_CASE("closure: follows includes, sorted behind the main file, generated headers left out") {
  const FileMap files{
      {"a/main.cu", "#include \"z.cuh\"\n  #  include \"a/y.cuh\"  // why\n#include \"kernwright/specialisation.cuh\"\nint x;\n"},
      {"z.cuh", "#pragma once\n#include \"a/deep.cuh\""},
      {"a/y.cuh", "#include \"z.cuh\"\n"},
      {"a/deep.cuh", "#include \"z.cuh\"\n"},
      {"unused.cuh", "#include \"nowhere.cuh\"\n"}};
  auto closure = resolve_closure(files, "a/main.cu");
  REQUIRE(closure);
  REQUIRE(closure->size() == 4);
  CHECK((*closure)[0].name == "a/main.cu");
  CHECK((*closure)[1].name == "a/deep.cuh");
  CHECK((*closure)[2].name == "a/y.cuh");
  CHECK((*closure)[3].name == "z.cuh");
  CHECK((*closure)[3].content == files.at("z.cuh"));
}

TEST_CASE("closure: a missing file is named with its includer and line") {
  auto closure = resolve_closure({{"m.cu", "int a;\n#include \"gone.cuh\"\n"}}, "m.cu");
  REQUIRE_FALSE(closure);
  CHECK(closure.error().code == ErrorCode::not_found);
  CHECK(closure.error().message.find("m.cu:2") != std::string::npos);
  CHECK(closure.error().message.find("gone.cuh") != std::string::npos);
}

TEST_CASE("closure: toolkit headers are refused") {
  auto closure = resolve_closure({{"m.cu", "#include <cuda_bf16.h>\n"}}, "m.cu");
  REQUIRE_FALSE(closure);
  CHECK(closure.error().message.find("m.cu:1") != std::string::npos);
  CHECK_FALSE(resolve_closure({{"m.cu", "#include MACRO\n"}}, "m.cu"));
  CHECK_FALSE(resolve_closure({{"m.cu", "#include \"open\n"}}, "m.cu"));
  CHECK(resolve_closure({{"m.cu", "// #include <x>\n#included\n"}}, "m.cu"));
}
