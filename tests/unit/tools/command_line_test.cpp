// The built program as a child process: exit codes, what stands on stdout and on stderr, hostile files.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "fixtures/temporary_folder.hpp"
#include "support/index_walk.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"
#include "unit/tools/edited_templates.hpp"
#include "unit/tools/kernel_like_attention.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::support;
using namespace kernwright::tests;

namespace {

const std::vector<std::string> kRun{"run", "sparse-mla", "--target", "host"};
const std::vector<std::string> kSmallRun =
    kRun + std::vector<std::string>{"--tokens", "9", "--heads", "2", "--topk", "6", "--churn", "0.3"};

struct InputTensors {
  std::int64_t tokens = 7, heads = 3, kv_rows = 20, topk = 10;
  std::vector<Bf16> q, kv;
  std::vector<std::int32_t> indices, topk_length;
  std::vector<float> sink;

  InputTensors() {
    q = random_normal_bf16(tokens * heads * 576, 21, 1);
    kv = random_normal_bf16(kv_rows * 576, 21, 2);
    indices = make_walk({.tokens = tokens, .topk = topk, .kv_rows = kv_rows, .churn = 0.2}).value().indices;
    indices[3] = -1;
    indices[14] = 20;
    topk_length = {10, 4, 10, 0, 10, 99, 7};
    sink = {0.5F, -1, 2};
  }
  [[nodiscard]] std::vector<SafetensorsTensor> tensors() const {
    return {{"q", DType::bf16, {tokens, heads, 576}, std::as_bytes(std::span(q))},
            {"kv", DType::bf16, {kv_rows, 576}, std::as_bytes(std::span(kv))},
            {"indices", DType::i32, {tokens, topk}, std::as_bytes(std::span(indices))},
            {"topk_length", DType::i32, {tokens}, std::as_bytes(std::span(topk_length))},
            {"attn_sink", DType::f32, {heads}, std::as_bytes(std::span(sink))}};
  }
};

}  // namespace

TEST_CASE("command line: help and version") {
  const ChildResult version = kernwright_program({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out.starts_with("kernwright "));
  CHECK(version.err.empty());
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"run"},
                                                {"run", "sparse-mla"},
                                                {"run", "paged-kv"},
                                                {"bench", "paged-mla"},
                                                {"doctor"},
                                                {"trace"},
                                                {"warm"},
                                                {"cache"},
                                                {"cache", "show"},
                                                {"cache", "pack"},
                                                {"cache", "unpack"}}) {
    const ChildResult help = kernwright_program(words + std::vector<std::string>{"--help"});
    CHECK(help.exit_code == 0);
    CHECK_CONTAINS(help.out, "--help");
    CHECK(help.err.empty());
  }
  const std::string run_help = kernwright_program({"run", "sparse-mla", "--help"}).out;
  for (const char* option : {"--input", "--output", "--tokens", "--batch", "--heads", "--kv-rows", "--topk", "--churn", "--seed", "--union",
                             "--tile", "--target", "--templates", "--deterministic", "--check", "--json", "--quiet"}) {
    CHECK_CONTAINS(run_help, option);
  }
  const std::string paged_help = kernwright_program({"run", "paged-kv", "--help"}).out;
  for (const char* option : {"--input", "--output", "--batch", "--tokens", "--page-size", "--layers", "--heads", "--s-q", "--seed",
                             "--pools", "--tile", "--target", "--templates", "--check", "--json", "--quiet"}) {
    CHECK_CONTAINS(paged_help, option);
  }
}

TEST_CASE("command line: words that are off are refused with the legal ones") {
  check_refused({}, {"subcommand", "doctor, run, bench, tune, trace, warm, cache"});
  check_refused({"bake"}, {"bake", "doctor, run, bench, tune, trace, warm, cache"});
  check_refused({"run", "dense"}, {"'dense' is no command", "sparse-mla, paged-kv"});
  check_refused({"doctor", "--loud"}, {"--loud", "--json"});
  check_refused(kRun + std::vector<std::string>{"--tokns", "5"}, {"--tokns", "--tokens"});
  check_refused(kRun + std::vector<std::string>{"--tokens"}, {"--tokens"});
  check_refused(kRun + std::vector<std::string>{"--tokens", "many"}, {"--tokens", "many"});
  check_refused(kRun + std::vector<std::string>{"--tokens", "-1"}, {"--tokens", "-1", "0 to 2147483647"});
  check_refused(kRun + std::vector<std::string>{"--tokens", "99999999999999999999"}, {"--tokens"});
  check_refused(kRun + std::vector<std::string>{"--heads", "0"}, {"--heads", "1 to 128"});
  check_refused(kRun + std::vector<std::string>{"--heads", "129"}, {"--heads", "1 to 128"});
  check_refused(kRun + std::vector<std::string>{"--topk", "4097"}, {"--topk", "1 to 4096"});
  check_refused(kRun + std::vector<std::string>{"--churn", "1.5"}, {"--churn"});
  check_refused(kRun + std::vector<std::string>{"--union", "3"}, {"--union 3", "auto, 0 (off), 2, 4, 8, 16"});
  check_refused(kRun + std::vector<std::string>{"--union", "8", "--deterministic"}, {"--union 8", "--deterministic"});
  check_refused(kRun + std::vector<std::string>{"--tile", "big"}, {"--tile", "big"});
  check_refused(kRun + std::vector<std::string>{"--input", "x", "--tokens", "5"}, {"--input", "--tokens"});
  check_refused({"run", "sparse-mla", "--target", "gpu"}, {"gpu", "auto, host"});
  check_refused({"warm"}, {"--target", "sm_90a", "host"});
  check_refused({"warm", "--target", "sm_80,9000"}, {"9000", "sm_90a"});
  check_refused({"warm", "--target", "host", "--heads", "8,0"}, {"--heads", "1 to 128"});
  check_refused({"warm", "--target", "host", "--union", "1"}, {"--union", "auto, 0 (off)"});
  check_refused({"warm", "--target", "host", "--jobs", "0"}, {"--jobs"});
  check_refused({"cache"}, {"ls, show, verify, prune, clear, pack, unpack"});
  check_refused({"cache", "show"}, {"key"});
}

TEST_CASE("command line: run on host is checked and described in JSON, and the second run hits the store") {
  const std::vector<std::string> words = kSmallRun + std::vector<std::string>{"--union", "4", "--check", "--json", "--quiet"};
  const ChildResult first = kernwright_program(words);
  REQUIRE_MESSAGE(first.exit_code == 0, first.err << first.out);
  CHECK(first.err.empty());
  const Json json = json_of(first);
  CHECK(json["device"] == "host");
  CHECK(json["target"] == "host");
  CHECK(json["union_asked"] == 4);
  CHECK(json["union_used"] == 4);
  CHECK(json["union_reason"].is_string());
  CHECK(json["deterministic"] == false);
  CHECK(json["workspace_bytes"] > 0);
  CHECK(json["total_ms"] > 0);
  REQUIRE(json["launches"].size() == 2);
  CHECK(json["launches"][0]["template"] == "sparse_mla/union_build");
  CHECK(json["launches"][1]["template"] == "sparse_mla/prefill");
  double launches_ms = 0;
  for (const Json& launch : json["launches"]) {
    CHECK(launch["tile_asked"] == launch["tile_fitted"]);
    CHECK(launch["fit_reason"].is_string());
    CHECK(launch["compile_ms"].is_number());
    CHECK(launch["grid"].size() == 3);
    CHECK(launch["grid"][0] >= 1);
    CHECK(launch["threads"] >= 32);
    CHECK(launch["dynamic_shared"] >= 0);
    CHECK(launch["median_ms"] > 0);
    launches_ms += launch["median_ms"].get<double>();
  }
  CHECK(launches_ms == doctest::Approx(json["total_ms"].get<double>()).epsilon(0.5));
  const Json& check = json["check"];
  CHECK(check["passed"] == true);
  CHECK(check["worst_row_cosine"] >= 0.9999);
  CHECK(check["worst_row_rel_l2"] > 0);
  CHECK(check["bound_violations"] == 0);
  CHECK(check["lse_max_abs"] <= 1e-4);
  CHECK(check["rows"] == 18);
  CHECK(json["counters"]["launches"]["sparse_mla/prefill"] >= 4);

  const Json second = json_of(kernwright_program(words));
  for (const Json& launch : second["launches"]) {
    CHECK(launch["cache"] == "store");
    CHECK(launch["compile_ms"] == 0);
  }
  CHECK(second["counters"]["compiles"] == 0);
}

TEST_CASE("command line: without --check there is none, and per token is one launch") {
  const Json json = json_of(kernwright_program(kSmallRun + std::vector<std::string>{"--deterministic", "--json"}));
  CHECK(json["check"].is_null());
  CHECK(json["deterministic"] == true);
  CHECK(json["union_asked"] == "auto");
  CHECK(json["union_used"] == 0);
  CHECK(json["workspace_bytes"] == 0);
  CHECK(json["launches"].size() == 1);
}

TEST_CASE("command line: people read device, target, tile, time and check") {
  const ChildResult result = kernwright_program(kSmallRun + std::vector<std::string>{"--union", "4", "--check"});
  CHECK(result.exit_code == 0);
  for (const char* part :
       {"device", "host", "target", "union", "sparse_mla/union_build", "sparse_mla/prefill", "tile portable:", "total", "passed"}) {
    CHECK_CONTAINS(result.out, part);
  }
  CHECK_FALSE(contains(result.out, "asked,"));  // nobody asked for a tile
  // Plain progress lines, since stderr is no terminal.
  CHECK_CONTAINS(result.err, "run sparse-mla: 1/4");
  CHECK(result.err.find('\r') == std::string::npos);
}

TEST_CASE("command line: a file's tensors come out as an independent computation says") {
  const TemporaryFolder folder;
  const InputTensors input;
  const float scale = 0.03F;
  REQUIRE(write_safetensors(folder.path() / "in.safetensors", input.tensors(), {{"sm_scale", "0.03"}}).has_value());
  const ChildResult result = kernwright_program(kRun + std::vector<std::string>{"--input", (folder.path() / "in.safetensors").string(),
                                                                                "--output", (folder.path() / "out.safetensors").string(),
                                                                                "--union", "0", "--check", "--json", "--quiet"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err << result.out);
  CHECK(json_of(result)["tokens"] == 7);
  CHECK(json_of(result)["output"] == (folder.path() / "out.safetensors").string());

  const Result<SafetensorsFile> file = SafetensorsFile::open(folder.path() / "out.safetensors");
  REQUIRE(file.has_value());
  const SafetensorsEntry* entry = file->header().find("out");
  REQUIRE(entry != nullptr);
  CHECK(entry->shape == std::vector<std::int64_t>{7, 3, 512});
  const std::vector<Bf16> out = file->read<Bf16>(*entry).value();
  const std::vector<float> lse = file->read<float>(*file->header().find("lse")).value();
  const std::vector<float> max_logits = file->read<float>(*file->header().find("max_logits")).value();
  for (std::size_t token = 0; token < 7; ++token) {
    std::vector<std::int32_t> rows;
    for (std::int64_t slot = 0; slot < std::min<std::int64_t>(10, input.topk_length[token]); ++slot) {
      const std::int32_t row = input.indices[token * 10 + static_cast<std::size_t>(slot)];
      if (row >= 0 && row < 20) rows.push_back(row);
    }
    for (std::size_t head = 0; head < 3; ++head) {
      const std::size_t row = token * 3 + head;
      const tests::AttentionRow want =
          tests::kernel_like_attention(std::span(input.q).subspan(row * 576, 576), input.kv, 512, rows, scale, &input.sink[head]);
      double worst = 0;
      for (std::size_t d = 0; d < 512; ++d) {
        worst = std::max(worst, std::abs(static_cast<double>(bf16_to_float(out[row * 512 + d]) - bf16_to_float(want.out[d]))));
      }
      CAPTURE(token);
      CAPTURE(head);
      CHECK(worst < 0.02);
      if (std::isinf(want.lse)) {
        CHECK(lse[row] == want.lse);
        CHECK(max_logits[row] == want.max_logit);
      } else {
        CHECK(std::abs(lse[row] - want.lse) < 1e-4F);
        CHECK(std::abs(max_logits[row] - want.max_logit) < 1e-4F);
      }
    }
  }
}

TEST_CASE("command line: a wrong answer is exit code 1") {
  // A selected row that is not finite reaches its whole group with union, which the reference, token by token, calls wrong.
  const TemporaryFolder folder;
  InputTensors input;
  input.kv[5 * 576 + 3] = 0x7fc0;
  for (std::int32_t& position : input.indices) position = position == 5 ? 6 : position;
  input.indices[0] = 5;
  input.topk_length.assign(7, 10);
  REQUIRE(write_safetensors(folder.path() / "in", input.tensors()).has_value());
  const ChildResult result = kernwright_program(
      kRun + std::vector<std::string>{"--input", (folder.path() / "in").string(), "--union", "4", "--check", "--json", "--quiet"});
  CHECK_MESSAGE(result.exit_code == 1, result.err << result.out);
  const Json json = json_of(result);
  CHECK(json["check"]["passed"] == false);
  CHECK(json["check"]["bound_violations"] > 0);
  CHECK(!json["check"]["first_failure"].get<std::string>().empty());
}

TEST_CASE("command line: run and bench ask for the tile that --tile names") {
  const std::string tile = "\"portable:m16n16s1w4\"";
  const std::vector<std::string> host{"--target", "host", "--quiet"};
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "sparse-mla", "--tokens", "9", "--topk", "6", "--heads", "2", "--json"},
        {"run", "paged-kv", "--batch", "2", "--tokens", "20", "--heads", "2", "--json"},
        {"bench", "sparse-mla", "--shapes", "1x9", "--churn", "0.3", "--topk", "6", "--heads", "2", "--repetitions", "1", "--json", "-"},
        {"bench", "paged-mla", "--points", "2:1x16", "--block-table", "none", "--repetitions", "1", "--json", "-"}}) {
    CAPTURE(words[0] + " " + words[1]);
    const ChildResult by_default = kernwright_program(words + host);
    CHECK_MESSAGE(by_default.exit_code == 0, by_default.err);
    CHECK_FALSE(contains(by_default.out, tile));
    const ChildResult asked = kernwright_program(words + host + std::vector<std::string>{"--tile", "portable:m16n16s1w4"});
    CHECK_MESSAGE(asked.exit_code == 0, asked.err);
    CHECK_CONTAINS(asked.out, tile);
  }
}

TEST_CASE("command line: run takes templates that are laid over the built-in ones, and sees a fault in them") {
  const TemporaryFolder folder;
  const auto templates =
      edited_templates(folder.path(), "sparse_mla/prefill_softmax.cuh", "float factor = 1.0f / sum;", "float factor = 1.01f / sum;");
  const std::vector<std::string> checked = kRun + std::vector<std::string>{"--check", "--json", "--quiet"};
  CHECK(kernwright_program(checked).exit_code == 0);
  const ChildResult result = kernwright_program(checked + std::vector<std::string>{"--templates", templates.string()});
  CHECK_MESSAGE(result.exit_code == 1, result.err << result.out);
  CHECK(json_of(result)["check"]["bound_violations"] > 0);
}

TEST_CASE("command line: input files that are not what they must be are refused by name") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "in.safetensors").string();
  const auto refused = [&](const std::vector<std::string>& parts) {
    check_refused(kRun + std::vector<std::string>{"--input", path}, std::vector<std::string>{path} + parts);
  };
  refused({"could not be opened"});
  write_file(path, "abc");
  refused({"3 bytes"});
  InputTensors input;
  REQUIRE(write_safetensors(path, input.tensors()).has_value());
  const std::string good = read_file(path);
  write_file(path, good.substr(0, good.size() - 1));
  refused({"pass the end of the data"});
  write_file(path, good + "x");
  refused({"but the tensors end at"});
  write_file(path, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + good.substr(8));
  refused({"claims 9223372036854775807 bytes"});
  // A header that lies about a dtype of the same size.
  std::string lying = good;
  lying.replace(lying.find("BF16"), 4, "F16\"");
  write_file(path, lying);
  refused({"not valid JSON"});

  const auto with = [&](std::size_t index, SafetensorsTensor tensor) {
    std::vector<SafetensorsTensor> tensors = input.tensors();
    tensors[index] = std::move(tensor);
    REQUIRE(write_safetensors(path, tensors).has_value());
  };
  const auto zeros = std::vector<std::byte>(1 << 20);
  const auto bytes = [&](std::size_t count) { return std::span(zeros).first(count); };
  with(0, {"query", DType::bf16, {1}, bytes(2)});
  refused({"no tensor 'q'", "query"});
  with(0, {"q", DType::f16, {7, 3, 576}, bytes(7 * 3 * 576 * 2)});
  refused({"tensor 'q' is F16; legal is BF16"});
  with(0, {"q", DType::bf16, {21, 576}, bytes(21 * 576 * 2)});
  refused({"tensor 'q' has shape [21, 576]; legal is [T, H, d_qk]"});
  with(0, {"q", DType::bf16, {7, 3, 500}, bytes(7 * 3 * 500 * 2)});
  refused({"d_qk (extent 2) must be 576 or 512"});
  with(0, {"q", DType::bf16, {7, 200, 64}, bytes(7 * 200 * 64 * 2)});
  refused({"tensor 'q'", "H (extent 1) must be 1 to 128"});
  with(1, {"kv", DType::bf16, {20, 512}, bytes(20 * 512 * 2)});
  refused({"tensor 'kv' has shape [20, 512]", "must be 576"});
  with(2, {"indices", DType::i64, {7, 10}, bytes(7 * 10 * 8)});
  refused({"tensor 'indices' is I64; legal is I32"});
  with(2, {"indices", DType::i32, {6, 10}, bytes(6 * 10 * 4)});
  refused({"tensor 'indices'", "must be 7"});
  with(2, {"indices", DType::i32, {7, 0}, {}});
  refused({"tensor 'indices'", "K (extent 1) must be 1 to 4096"});
  with(3, {"topk_length", DType::i32, {8}, bytes(32)});
  refused({"tensor 'topk_length'", "must be 7"});
  with(4, {"attn_sink", DType::f32, {2}, bytes(8)});
  refused({"tensor 'attn_sink'", "must be 3"});
  REQUIRE(write_safetensors(path, input.tensors(), {{"sm_scale", "nan"}}).has_value());
  refused({"sm_scale is 'nan'"});
}

TEST_CASE("command line: an input that is a folder, and outputs that cannot be written, are exit code 3") {
  const TemporaryFolder folder;
  const auto unable = [&](const std::vector<std::string>& words, std::string_view part) {
    const ChildResult result = kernwright_program(kSmallRun + words);
    CHECK_MESSAGE(result.exit_code == 3, result.err);
    CHECK(result.out.empty());
    CHECK_CONTAINS(result.err, part);
  };
  const ChildResult result = kernwright_program(kRun + std::vector<std::string>{"--input", folder.path().string()});
  CHECK(result.exit_code == 3);
  CHECK_CONTAINS(result.err, "folder");
  unable({"--output", "/dev/full"}, "No space left");
  unable({"--output", (folder.path() / "no").string() + "/such/file"}, "could not be created");
  unable({"--output", folder.path().string()}, "is a folder");
}

TEST_CASE("command line: stdout that is closed, full or unread is an error, and no file gets its words") {
  for (const auto how : {ChildOptions::Stdout::closed, ChildOptions::Stdout::full, ChildOptions::Stdout::unread_pipe}) {
    ChildOptions options = in_store();
    options.stdout_is = how;
    for (const std::vector<std::string>& words : {std::vector<std::string>{"--version"}, {"doctor", "--json"}, {"cache", "ls"}}) {
      const ChildResult result = kernwright_program(words, options);
      CHECK_MESSAGE(result.exit_code == 3, result.err);
      CHECK_CONTAINS(result.err, "stdout could not be written to");
    }
  }
  const TemporaryFolder folder;
  ChildOptions closed = in_store();
  closed.stdout_is = ChildOptions::Stdout::closed;
  const ChildResult result =
      kernwright_program(kSmallRun + std::vector<std::string>{"--output", (folder.path() / "out").string(), "--json"}, closed);
  CHECK(result.exit_code == 3);
  CHECK(SafetensorsFile::open(folder.path() / "out").has_value());
}

TEST_CASE("command line: a problem that no machine holds is refused before it is tried") {
  const ChildResult result = kernwright_program(kRun + std::vector<std::string>{"--tokens", "2000000000", "--heads", "128"});
  CHECK_MESSAGE(result.exit_code == 3, result.err);
  CHECK_CONTAINS(result.err, "GiB");
}

TEST_CASE("command line: warm fills a store, and cache lists, shows, verifies and clears it") {
  const TemporaryFolder folder;
  const ChildOptions store = in_store(folder.path() / "store");
  const ChildResult empty = kernwright_program({"cache", "ls", "--json"}, store);
  CHECK(empty.exit_code == 0);
  CHECK(json_of(empty)["entries"].empty());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "store"));

  const std::vector<std::string> words{"warm", "--target", "host", "--heads", "1", "--union", "0", "--no-fallbacks", "--json", "--quiet"};
  const ChildResult warmed = kernwright_program(words, store);
  REQUIRE_MESSAGE(warmed.exit_code == 0, warmed.err << warmed.out);
  const Json built = json_of(warmed);
  CHECK(built["built"] == 1);
  CHECK(built["hit"] == 0);
  CHECK(built["failed"] == 0);
  REQUIRE(built["items"].size() == 1);
  CHECK(built["items"][0]["template"] == "sparse_mla/prefill");
  CHECK(built["items"][0]["compile_ms"] > 0);
  const std::string key = built["items"][0]["key"];
  const Json again = json_of(kernwright_program(words, store));
  CHECK(again["built"] == 0);
  CHECK(again["hit"] == 1);

  const Json list = json_of(kernwright_program({"cache", "ls", "--json"}, store));
  CHECK(list["stores"][0]["folder"] == (folder.path() / "store").string());
  CHECK(list["bad"] == 0);
  CHECK(list["compilers"].size() == 1);
  CHECK_CONTAINS(kernwright_program({"cache", "ls"}, store).out, key);
  const ChildResult shown = kernwright_program({"cache", "show", key.substr(0, 12), "--json"}, store);
  CHECK_MESSAGE(shown.exit_code == 0, shown.err);
  const Json entry = json_of(shown);
  CHECK(entry["key"] == key);
  CHECK(entry["template"] == "sparse_mla/prefill");
  CHECK(entry["target"] == "host");
  CHECK(entry["tile"] == built["items"][0]["tile"]);
  CHECK(entry["log"].is_string());
  CHECK(!entry["sources"].empty());
  CHECK(kernwright_program({"cache", "show", key}, store).exit_code == 0);
  check_refused({"cache", "show", "00000000000000000000000000000000"}, {"00000000"}, store);
  check_refused({"cache", "show", "zz"}, {"zz"}, store);
  CHECK(kernwright_program({"cache", "verify"}, store).exit_code == 0);

  const std::filesystem::path file = folder.path() / "store" / "entries" / key.substr(0, 2) / (key + ".kwe");
  std::string content = read_file(file);
  REQUIRE(content.size() > 1000);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  write_file(file, content);
  const ChildResult verified = kernwright_program({"cache", "verify", "--json"}, store);
  CHECK(verified.exit_code == 1);
  CHECK(json_of(verified)["bad"] == 1);
  CHECK_CONTAINS(kernwright_program({"cache", "verify"}, store).out, "BAD " + key);
  CHECK(kernwright_program({"cache", "ls"}, store).exit_code == 0);

  write_file(folder.path() / "store" / "mine.txt", "kept");
  const Json cleared = json_of(kernwright_program({"cache", "clear", "--json"}, store));
  CHECK(cleared["entries"] == list["entries"].size());
  CHECK(json_of(kernwright_program({"cache", "ls", "--json"}, store))["entries"].empty());
  CHECK(read_file(folder.path() / "store" / "mine.txt") == "kept");
}
