// Recordings from one process to the next: what `run` recorded, `run --input --check` computes again.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "fixtures/temporary_folder.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

/// A file with everything that a call may have.
void write_input(const std::filesystem::path& file) {
  const auto q = support::random_normal_bf16(9 * 2 * 576, 3, 1), kv = support::random_normal_bf16(12 * 576, 3, 2);
  std::vector<std::int32_t> indices, lengths;
  for (std::int32_t t = 0; t < 9; ++t) {
    for (std::int32_t k = 0; k < 6; ++k) indices.push_back((t + 2 * k) % 12);
    lengths.push_back(t % 7);
  }
  const std::vector<float> sink{0.25F, -0.5F};
  const std::vector<support::SafetensorsTensor> tensors{
      {"q", DType::bf16, {9, 2, 576}, std::as_bytes(std::span(q))},
      {"kv", DType::bf16, {12, 576}, std::as_bytes(std::span(kv))},
      {"indices", DType::i32, {9, 6}, std::as_bytes(std::span(indices))},
      {"topk_length", DType::i32, {9}, std::as_bytes(std::span(lengths))},
      {"attn_sink", DType::f32, {2}, std::as_bytes(std::span(sink))},
  };
  // The strides are what a recording of a slice would say.
  REQUIRE(support::write_safetensors(file, tensors, {{"sm_scale", "0.05"}, {"strides.q", "1344,640,1"}, {"strides.kv", "640,1"}}));
}

std::filesystem::path record(const std::filesystem::path& folder) {
  const auto input = folder / "input.safetensors";
  write_input(input);
  ChildOptions options = in_store();
  options.environment["KERNWRIGHT_RECORD"] = "sparse_mla:1:" + (folder / "recordings").string();
  const ChildResult run =
      kernwright_program({"run", "sparse-mla", "--target", "host", "--input", input.string(), "--union", "4", "--quiet"}, options);
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  CHECK(run.err.empty());
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::directory_iterator(folder / "recordings")) files.push_back(each.path());
  REQUIRE(files.size() == 1);
  return files.front();
}

std::vector<std::string> replay(const std::filesystem::path& file) {
  return {"run", "sparse-mla", "--target", "host", "--input", file.string(), "--check", "--json", "--quiet"};
}

/// Turns the lowest bit of the first byte of a tensor.
std::filesystem::path with_wrong_byte(const std::filesystem::path& file, std::string_view tensor) {
  const auto opened = support::SafetensorsFile::open(file);
  REQUIRE(opened);
  const auto* const entry = opened->header().find(tensor);
  REQUIRE((entry != nullptr) == true);
  const auto copy = std::filesystem::path(file.string() + "." + std::string(tensor));
  std::filesystem::copy_file(file, copy);
  std::fstream stream(copy, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(opened->header().data_offset + entry->begin);
  stream.seekg(at);
  const int byte = stream.get();
  stream.seekp(at);
  stream.put(static_cast<char>(byte ^ 1));
  return copy;
}

}  // namespace

TEST_CASE("recording: replayed by another process it gives the recorded output, bit by bit, and a wrong byte goes red") {
  const TemporaryFolder folder;
  const auto file = record(folder.path());
  const ChildResult same = kernwright_program(replay(file));
  REQUIRE_MESSAGE(same.exit_code == 0, same.err);
  const Json json = json_of(same);
  CHECK(json["check"]["passed"] == true);
  CHECK(json["union_used"] == 4);  // as recorded, without being told
  REQUIRE(json["recorded"].is_object());
  CHECK(json["recorded"]["same_kernel"] == true);
  CHECK(json["recorded"]["bit_identical"] == true);
  CHECK(json["recorded"]["elements"] == 9 * 2 * 512 + 2 * 9 * 2);
  CHECK(json["recorded"]["passed"] == true);

  for (const std::string_view tensor : {"out", "lse"}) {
    CAPTURE(std::string(tensor));
    const ChildResult wrong = kernwright_program(replay(with_wrong_byte(file, tensor)));
    CHECK(wrong.exit_code == 1);
    const Json told = json_of(wrong)["recorded"];
    CHECK(told["passed"] == false);
    CHECK(told["differing"] == 1);
    CHECK(told["first"] == std::string(tensor) + " of token 0, head 0");
  }
  {
    INFO("a wrong length: another output than the recorded one");
    const ChildResult wrong = kernwright_program(replay(with_wrong_byte(file, "topk_length")));
    CHECK(wrong.exit_code == 1);
    CHECK(json_of(wrong)["check"]["passed"] == true);
    CHECK(json_of(wrong)["recorded"]["passed"] == false);
  }
  {
    INFO("another union: the recorded output is held against the reference");
    const ChildResult other = kernwright_program(replay(file) + std::vector<std::string>{"--union", "2"});
    CHECK(other.exit_code == 0);
    CHECK(json_of(other)["recorded"]["same_kernel"] == false);
    CHECK(json_of(other)["recorded"]["difference"] == "union 4 there, 2 here");
  }
}

TEST_CASE("recording: bench and tune take it as it is") {
  const TemporaryFolder folder;
  const auto file = record(folder.path());
  const ChildResult bench = kernwright_program({"bench", "sparse-mla", "--target", "host", "--input", file.string(), "--union", "4",
                                                "--repetitions", "2", "--quiet", "--json", "-"});
  REQUIRE_MESSAGE(bench.exit_code == 0, bench.err);
  const Json point = json_of(bench)["points"][0];
  CHECK(point["name"] == file.string());
  CHECK(point["check"]["passed"] == true);
  // Lengths 0, 1, … 6, 0, 1 over rows (t + 2k) mod 12, in groups of 4: the distinct rows are
  // {1, 2, 3, 4, 5, 7}, all but 3, and {8}.
  CHECK(point["gathered_rows"] == 6 + 11 + 1);
  const std::vector<std::string> tune_words{"tune",        "sparse-mla",    "--target", "host",   "--input",
                                            file.string(), "--union",       "0",        "--out",  (folder.path() / "table.toml").string(),
                                            "--strategy",  "random",        "--budget", "2",      "--rounds",
                                            "2",           "--repetitions", "2",        "--quiet"};
  const ChildResult tune = kernwright_program(tune_words);
  CHECK_MESSAGE(tune.exit_code == 0, tune.err);

  INFO("the journal is of this file's content, not of its name");
  std::filesystem::rename(with_wrong_byte(file, "kv"), file);
  check_refused(tune_words, {"table.toml.journal.jsonl is of another run (input_digests: here "});
}

TEST_CASE("recording: metadata that is off names the file and what is legal") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "odd.safetensors";
  const auto q = support::random_normal_bf16(2 * 576, 3, 1);
  const std::vector<std::int32_t> indices{0, 1, 0, 1};
  const std::vector<support::SafetensorsTensor> tensors{{"q", DType::bf16, {2, 1, 576}, std::as_bytes(std::span(q))},
                                                        {"kv", DType::bf16, {2, 576}, std::as_bytes(std::span(q))},
                                                        {"indices", DType::i32, {2, 2}, std::as_bytes(std::span(indices))}};
  const std::map<std::string, std::string> whole{{"kernwright_recording", "1"}, {"op", "sparse_mla"}, {"target", "host"},
                                                 {"tile", "mma:m16n32s2w4"},    {"union_used", "4"},  {"deterministic", "0"}};
  const auto refuse = [&](const char* key, const char* value, const std::string& part) {
    std::map<std::string, std::string> metadata = whole;
    metadata[key] = value;
    REQUIRE(support::write_safetensors(file, tensors, metadata));
    check_refused(replay(file), {file.string(), part});
  };
  refuse("kernwright_recording", "2", "this version reads 1");
  refuse("op", "paged_mla", "'paged_mla'");
  refuse("union_used", "3", "union_used is '3'");
  refuse("tile", "round", "tile");
  refuse("strides.q", "577,576,1", "strides.q");
  refuse("strides.q", "576,1", "strides.q");
}
