// kernwright run paged-kv as a program, on the interpreter.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "fixtures/temporary_folder.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"
#include "unit/tools/edited_templates.hpp"
#include "unit/tools/kernel_like_attention.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::support;
using namespace kernwright::tests;

namespace {

using Words = std::vector<std::string>;
const Words kRun{"run", "paged-kv", "--target", "host"};
const Words kChecked = kRun + Words{"--check", "--json", "--quiet"};

const Json& step_of(const Json& pool, const std::string& name) {
  const auto found = std::ranges::find_if(pool["steps"], [&](const Json& step) { return step["name"] == name; });
  REQUIRE_MESSAGE(found != pool["steps"].end(), name);
  return *found;
}

/// Two requests with a page in common, one padded lane; pages of 4 tokens in 2 layers.
struct InputTensors {
  static constexpr std::int64_t kPageSize = 4, kPages = 7, kWidth = 9, kSlots = 3, kHeads = 2;
  std::vector<std::int32_t> req_to_token = std::vector<std::int32_t>(kSlots * kWidth, -7);
  std::vector<std::int64_t> requests{2, 0, 1}, lengths{9, 6, 0}, starts{0, 1, 0};
  std::vector<Bf16> q = random_normal_bf16(3 * kHeads * 576, 5, 1), kv = random_normal_bf16(kPages * kPageSize * 576, 5, 2);
  std::map<std::string, std::string> metadata{{"page_size", "4"}, {"layers", "2"}, {"sm_scale", "0.04"}};

  InputTensors() {
    put(2, 0, {5, 1, 3});
    put(0, 1, {5, 6});
  }
  void put(std::int64_t slot, std::int64_t start, const std::vector<std::int32_t>& pages) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(pages.size()) * kPageSize && start + i < kWidth; ++i) {
      req_to_token[static_cast<std::size_t>(slot * kWidth + start + i)] =
          pages[static_cast<std::size_t>(i / kPageSize)] * static_cast<std::int32_t>(kPageSize) + static_cast<std::int32_t>(i % kPageSize);
    }
  }
  [[nodiscard]] std::string write(const TemporaryFolder& folder) const {
    const std::vector<SafetensorsTensor> tensors{
        {"req_to_token", DType::i32, {kSlots, kWidth}, std::as_bytes(std::span(req_to_token))},
        {"requests", DType::i64, {static_cast<std::int64_t>(requests.size())}, std::as_bytes(std::span(requests))},
        {"lengths", DType::i64, {static_cast<std::int64_t>(lengths.size())}, std::as_bytes(std::span(lengths))},
        {"starts", DType::i64, {static_cast<std::int64_t>(starts.size())}, std::as_bytes(std::span(starts))},
        {"q", DType::bf16, {3, 1, kHeads, 576}, std::as_bytes(std::span(q))},
        {"kv", DType::bf16, {kPages * kPageSize, 576}, std::as_bytes(std::span(kv))}};
    const auto file = folder.path() / "in.safetensors";
    REQUIRE(write_safetensors(file, tensors, metadata).has_value());
    return file.string();
  }
};

}  // namespace

TEST_CASE("run paged-kv: every kernel on both pools is compared with the reference") {
  for (const Words& shape :
       {Words{}, Words{"--page-size", "1", "--layers", "1", "--tokens", "40"},
        Words{"--page-size", "64", "--layers", "5", "--tokens", "150", "--heads", "3", "--s-q", "2", "--batch", "5"}}) {
    const ChildResult result = kernwright_program(kChecked + shape);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err << result.out);
    CHECK(result.err.empty());
    const Json json = json_of(result);
    CHECK(json["device"] == "host");
    CHECK(json["check"]["passed"] == true);
    REQUIRE(json["pools"].size() == 2);
    const Json &fixed = json["pools"][0], &unified = json["pools"][1];
    CHECK(fixed["pool"] == "static");
    CHECK(unified["pool"] == "unified");
    CHECK(unified["layers"] == json["layers"]);
    CHECK(unified["moved_pages"] > 0);
    CHECK(unified["same_bits_after_moves"] == true);
    for (const Json& pool : json["pools"]) {
      for (const char* name :
           {"block table", "token indices", "translation in place", "write locations", "kv write, dense ids (all of the pool)"}) {
        CHECK(step_of(pool, name)["compared"] > 0);
        CHECK(step_of(pool, name)["wrong"] == 0);
      }
      CHECK(pool["attention"]["passed"] == true);
      CHECK(pool["attention"]["rows"] == json["batch"].get<int>() * json["query_tokens"].get<int>() * json["heads"].get<int>());
      for (const char* kernel :
           {"block_table", "token_indices", "translate", "write_locations", "write_rows", "move_pages", "zero_pages"}) {
        CHECK(pool["launches"][std::string("paged_kv/") + kernel] > 0);
      }
      CHECK(pool["launches"]["paged_mla/decode"] > 0);
    }
    CHECK(step_of(fixed, "page moves (all of the pool)")["compared"] > 0);
    CHECK(step_of(fixed, "page zeroing (all of the pool)")["compared"] > 0);
    CHECK(step_of(unified, "free and compact")["compared"] > 0);
    CHECK(step_of(unified, "compaction (every live row)")["compared"] > 0);
    CHECK(step_of(unified, "pages handed out are zero")["compared"] > 0);
    CHECK(step_of(unified, "attention, pages moved")["ms"] > 0);
  }
}

TEST_CASE("run paged-kv: without --check nothing is compared, and people read the steps") {
  const Json json = json_of(kernwright_program(kRun + Words{"--json", "--quiet", "--pools", "unified"}));
  CHECK(json["check"].is_null());
  REQUIRE(json["pools"].size() == 1);
  CHECK(json["pools"][0]["attention"].is_null());
  CHECK(step_of(json["pools"][0], "block table")["compared"].is_null());
  const ChildResult text = kernwright_program(kRun + Words{"--check"});
  CHECK(text.exit_code == 0);
  for (const char* part : {"static", "unified", "block table", "compaction", "right", "attention", "check", "passed"}) {
    CHECK_CONTAINS(text.out, part);
  }
  CHECK_CONTAINS(text.err, "run paged-kv: 3/3");
}

TEST_CASE("run paged-kv: the launch list that it writes warms a store from which it runs sealed") {
  const TemporaryFolder folder;
  const std::string list = (folder.path() / "paged.toml").string();
  const Words run = kRun + Words{"--heads", "5", "--tokens", "40", "--check", "--quiet"};
  REQUIRE(kernwright_program(run + Words{"--write-list", list}).exit_code == 0);
  const std::string text = read_file(list);
  for (const char* name : {"paged_mla/decode", "paged_mla/combine", "paged_kv/block_table", "paged_kv/update_tables"})
    CHECK_CONTAINS(text, name);
  const ChildOptions warmed = in_store(folder.path() / "warmed");
  const ChildResult filled = kernwright_program({"warm", "--list", list, "--no-fallbacks", "--quiet"}, warmed);
  REQUIRE_MESSAGE(filled.exit_code == 0, filled.err << filled.out);
  ChildOptions sealed = warmed;
  sealed.environment.insert_or_assign("KERNWRIGHT_SEALED", "1");
  sealed.environment.insert_or_assign("CXX", "/no/such/compiler");
  const ChildResult served = kernwright_program(run, sealed);
  CHECK_MESSAGE(served.exit_code == 0, served.err);
  CHECK_CONTAINS(served.out, "kernel     paged_mla/decode (heads=5 ");
  CHECK_CONTAINS(served.out, ", hit in the store\n");
  // An empty store cannot say which compiler's entries it lacks: the error says how one is filled.
  sealed.environment.insert_or_assign("KERNWRIGHT_CACHE_DIR", (folder.path() / "empty").string());
  const ChildResult missed = kernwright_program(run, sealed);
  CHECK(missed.exit_code == 3);
  for (const char* part : {"sealed_miss", "no store lists a compiler", "kernwright warm", "--list", "write_launch_list"})
    CHECK_CONTAINS(missed.err, part);
  CHECK(kernwright_program(run + Words{"--write-list", "/nonexistent/folder/list.toml"}).exit_code == 2);
}

TEST_CASE("run paged-kv: a fault planted in each kernel is exit code 1, and the step that saw it is named") {
  struct Fault {
    const char *file, *from, *to, *step;
  };
  for (const Fault& fault : {
           Fault{"paged_kv/block_table.cu", "tokens.once(first + (page + c * stride) * page_size)",
                 "tokens.once(first + (page + c * stride) * page_size + 1)", "block table"},
           Fault{"paged_kv/translation.cuh", "maximum<i64>(physical, 0) * multiplier", "maximum<i64>(physical, 0)", "block table"},
           Fault{"paged_kv/translate.cu", "i < count", "i < count + 1", "translation in place"},
           Fault{"paged_kv/write_locations.cu", "for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.capacity",
                 "for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count", "write locations"},
           Fault{"paged_kv/token_indices.cu", "i < length; i +=", "i < length - 1; i +=", "token indices"},
           Fault{"paged_kv/write_rows.cu", "location <= 0", "location < 0", "kv write, dense ids (all of the pool)"},
           Fault{"paged_kv/move_pages.cu", "at < params.page_bytes", "at < params.page_bytes - 16", "compaction (every live row)"},
           Fault{"paged_kv/zero_pages.cu", "at < params.page_bytes", "at < params.page_bytes - 16", "pages handed out are zero"},
           Fault{"paged_kv/update_tables.cu", "i < params.count", "i < params.count - 1", "compaction (every live row)"},
       }) {
    const std::string file = fault.file;
    CAPTURE(file);
    const TemporaryFolder folder;
    const auto templates = edited_templates(folder.path(), fault.file, fault.from, fault.to);
    const ChildResult result = kernwright_program(kChecked + Words{"--templates", templates.string()});
    CHECK(result.exit_code == 1);
    const Json json = json_of(result);
    CHECK(json["check"]["passed"] == false);
    const Json& step = step_of(json["pools"][1], fault.step);
    CHECK(step["wrong"] > 0);
    CHECK(step["first_wrong"].is_string());
  }
}

TEST_CASE("run paged-kv: a fault planted in attention is exit code 1") {
  const TemporaryFolder folder;
  const auto templates =  // the newest token does not see itself
      edited_templates(folder.path(), "paged_mla/decode_rows.cuh", "if (slot >= length) return {0, 0};",
                       "if (slot >= length - 1) return {0, 0};");
  const ChildResult result = kernwright_program(kChecked + Words{"--templates", templates.string()});
  CHECK(result.exit_code == 1);
  const Json report = json_of(result);
  for (const Json& pool : report["pools"]) {
    CHECK(pool["attention"]["passed"] == false);
    CHECK(pool["attention"]["first_failure"].is_string());
    CHECK(pool["passed"] == false);
  }
}

TEST_CASE("run paged-kv: a file's step comes out as an independent computation says") {
  const TemporaryFolder folder;
  const InputTensors input;
  const std::string out_file = (folder.path() / "out.safetensors").string();
  const ChildResult result = kernwright_program(kChecked + Words{"--input", input.write(folder), "--output", out_file});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err << result.out);
  CHECK(json_of(result)["layers"] == 2);
  const auto file = SafetensorsFile::open(out_file);
  REQUIRE(file.has_value());
  const auto table = file->read<std::int32_t>(*file->header().find("static.block_table")).value();
  // 3 pages of the widest request and 2 columns more, which nobody writes.
  REQUIRE(table.size() == 15);
  CHECK(std::vector(table.begin(), table.begin() + 3) == std::vector{5, 1, 3});
  CHECK(std::vector(table.begin() + 5, table.begin() + 7) == std::vector{5, 6});
  CHECK(table[7] == table[10]);
  const auto indices = file->read<std::int64_t>(*file->header().find("static.token_indices")).value();
  CHECK(indices == std::vector<std::int64_t>{20, 21, 22, 23, 4, 5, 6, 7, 12, 20, 21, 22, 23, 24, 25});
  for (const std::string pool : {"static", "unified"}) {
    const auto out = file->read<Bf16>(*file->header().find(pool + ".out")).value();
    const auto lse = file->read<float>(*file->header().find(pool + ".lse")).value();
    const std::vector<std::vector<std::int32_t>> rows{{20, 21, 22, 23, 4, 5, 6, 7, 12}, {20, 21, 22, 23, 24, 25}, {}};
    for (std::size_t row = 0; row < 6; ++row) {
      const auto want = kernel_like_attention(std::span(input.q).subspan(row * 576, 576), input.kv, 512, rows[row / InputTensors::kHeads],
                                              0.04F, nullptr);
      double worst = 0;
      for (std::size_t d = 0; d < 512; ++d) {
        worst = std::max(worst, std::abs(static_cast<double>(bf16_to_float(out[row * 512 + d]) - bf16_to_float(want.out[d]))));
      }
      CHECK(worst < 0.02);
      if (std::isinf(want.lse)) {
        CHECK(lse[row] == want.lse);
      } else {
        CHECK(std::abs(lse[row] - want.lse) < 1e-4F);
      }
    }
  }
}

TEST_CASE("run paged-kv: words and files that are off are refused with what is legal") {
  check_refused(kRun + Words{"--heads", "129"}, {"--heads", "1 to 128"});
  check_refused(kRun + Words{"--s-q", "9"}, {"--s-q", "1 to 8"});
  check_refused(kRun + Words{"--page-size", "3"}, {"page_size", "3"});
  check_refused(kRun + Words{"--pools", "both"}, {"--pools 'both'", "static and unified"});
  check_refused(kRun + Words{"--tile", "big"}, {"--tile", "big"});
  check_refused(kRun + Words{"--input", "x", "--seed", "5"}, {"--input", "--seed"});
  check_refused({"run", "paged-kv", "--target", "gpu"}, {"gpu", "auto, host"});
  check_refused(kRun + Words{"--input", "/no/such/file"}, {"/no/such/file"});
  const TemporaryFolder folder;
  const auto refused = [&](const InputTensors& input, const Words& parts) {
    check_refused(kRun + Words{"--input", input.write(folder)}, parts);
  };
  InputTensors broken;
  broken.req_to_token[2 * 9 + 2] = 9;  // a page's tokens one after the other
  refused(broken, {"request 0 has token 9 at place 2", "20"});
  broken = {};
  broken.put(2, 0, {5, 1, 7});
  refused(broken, {"request 0 has token 28 at place 8", "1 to 6"});
  broken = {};
  broken.lengths[0] = 10;
  refused(broken, {"request 0 has slot 2", "length 10", "[3, 9]"});
  broken = {};
  broken.requests[1] = 3;
  refused(broken, {"request 1 has slot 3"});
  broken = {};
  broken.lengths.pop_back();
  refused(broken, {"'lengths'", "B as requests has it"});
  broken = {};
  broken.metadata["page_size"] = "5";
  refused(broken, {"'kv'", "whole pages of 5"});
  broken = {};
  broken.metadata["layers"] = "many";
  refused(broken, {"layers is 'many'", "1 to 1024"});
}
