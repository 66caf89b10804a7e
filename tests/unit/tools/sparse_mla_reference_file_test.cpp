// A reference that was written is the reference that is read.
#include "support/sparse_mla_reference_file.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>

#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::support;

TEST_CASE("reference file: every number comes back to the last bit, infinities too") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "reference.safetensors";
  SparseMlaReference made;
  made.tokens = {3, 70'000'000'000};
  made.heads = 2;
  made.d_v = 3;
  for (int i = 0; i < 12; ++i) {
    made.out.push_back(1.0F / static_cast<float>(i + 3));
    made.magnitude.push_back(static_cast<float>(i) * 1e-30F);
  }
  made.lse = {1.0 / 3, std::numeric_limits<double>::infinity(), -7e-300, 0};
  made.max_logit = {2.0 / 3, -std::numeric_limits<double>::infinity(), 1e300, -0.0};
  REQUIRE(write_reference(file, made));
  const auto read = read_reference(file);
  REQUIRE_MESSAGE(read, (read ? "" : read.error().text()));
  CHECK(read->tokens == made.tokens);
  CHECK(read->heads == 2);
  CHECK(read->d_v == 3);
  CHECK(read->out == made.out);
  CHECK(read->magnitude == made.magnitude);
  CHECK(read->lse == made.lse);
  CHECK(read->max_logit == made.max_logit);

  CHECK(read_reference(folder.path() / "none").error().code == ErrorCode::not_found);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 8);
  CHECK(read_reference(file).error().code == ErrorCode::malformed);
}
