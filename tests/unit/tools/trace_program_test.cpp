// kernwright trace as a program.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "fixtures/temporary_folder.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

void write_selection(const std::filesystem::path& file, std::int64_t tokens, std::int64_t heads, const std::vector<std::int32_t>& indices) {
  const auto q = support::random_normal_bf16(tokens * heads * 576, 1, 1), kv = support::random_normal_bf16(8 * 576, 1, 2);
  const std::vector<support::SafetensorsTensor> tensors{
      {"q", DType::bf16, {tokens, heads, 576}, std::as_bytes(std::span(q))},
      {"kv", DType::bf16, {8, 576}, std::as_bytes(std::span(kv))},
      {"indices", DType::i32, {tokens, static_cast<std::int64_t>(indices.size()) / tokens}, std::as_bytes(std::span(indices))}};
  REQUIRE(support::write_safetensors(file, tensors));
}

}  // namespace

TEST_CASE("trace: union sizes, cost and what auto means") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "in.safetensors";
  // Four tokens with 16 heads: {0, 1} {0, 2} | {0, 1} {6, 7}. G = 2: unions of 3 and 4; G = 4: {0, 1, 2, 6, 7}, 64 rows, one pass;
  // G = 8 has the same rows and 128 rows of queries, two passes; G = 16 four.
  write_selection(file, 4, 16, {0, 1, 0, 2, 0, 1, 6, 7});
  const ChildResult result = kernwright_program({"trace", file.string(), "--target", "host", "--json"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const Json json = json_of(result);
  CHECK(json["rows_a_token"] == 2.0);
  CHECK(json["cost_without_union"] == 2.0);
  REQUIRE(json["groups"].size() == 4);
  const auto check = [&](std::size_t i, int size, double mean, int p50, int most, double cost) {
    const Json& group = json["groups"][i];
    CHECK(group["group_size"] == size);
    CHECK(group["mean"] == mean);
    CHECK(group["p50"] == p50);
    CHECK(group["p99"] == most);
    CHECK(group["max"] == most);
    CHECK(group["ratio"] == mean / 2);
    CHECK(group["cost"] == cost);
    CHECK(group["gain"].get<double>() == doctest::Approx(2 / cost));
    CHECK(group["pays"] == (2 / cost >= 1.05));
  };
  check(0, 2, 3.5, 3, 4, 7.0 / 4);
  check(1, 4, 5, 5, 5, 5.0 / 4);
  check(2, 8, 5, 5, 5, 2 * 5.0 / 4);
  check(3, 16, 5, 5, 5, 4 * 5.0 / 4);
  CHECK(json["would_pay"] == 4);
  CHECK(json["auto"] == 4);  // nothing measured on host: 4 x 16 rows fill a tile
  const ChildResult text = kernwright_program({"trace", file.string(), "--target", "host"});
  CHECK_CONTAINS(text.out, "would pay  G = 4, by the cost model");
  CHECK_CONTAINS(text.out, "auto means 4 for 16 heads on host");
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 200, line);
}

TEST_CASE("trace: where neighbours share nothing no G pays, and a file that is none is refused") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "in.safetensors";
  write_selection(file, 4, 16, {0, 1, 2, 3, 4, 5, 6, 7});
  const ChildResult result = kernwright_program({"trace", file.string(), "--target", "host", "--json"});
  CHECK(json_of(result)["would_pay"] == 0);
  std::ofstream(folder.path() / "text") << "no tensors";
  check_refused({"trace", (folder.path() / "text").string()}, {"is not a safetensors file"});
  check_refused({"trace"}, {"file is required"});
}
