#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "cases/step_down_cases.hpp"
#include "fixtures/log_lines.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "ops/sparse_mla_options.hpp"

using namespace kernwright;

namespace {

SparseMlaPrefillOptions legal_options() {
  SparseMlaPrefillOptions options;
  options.device = DeviceId::host();
  options.heads = 8;
  return options;
}

UnionChoice choice(const SparseMlaPrefillOptions& options, const std::filesystem::path& tables = {}, tests::LogLines* log = nullptr) {
  RuntimeOptions runtime_options;
  runtime_options.log_level = LogLevel::warn;
  if (log != nullptr) runtime_options.log = log->callback();
  runtime_options.memory_only = true;
  if (!tables.empty()) runtime_options.tuning_folder = tables;
  auto runtime = Runtime::create(runtime_options);
  REQUIRE(runtime);
  auto device = runtime->device(DeviceId::host());
  REQUIRE(device);
  auto chosen = choose_union(runtime->state(), options, *device);
  REQUIRE(chosen);
  return *chosen;
}

}  // namespace

TEST_CASE("sparse MLA options: each wrong one is refused when the op is made, with what is legal") {
  struct Wrong {
    const char* option;
    const char* legal;
    std::function<void(SparseMlaPrefillOptions&)> set;
  };
  const Wrong all[]{{"heads", "1 to 128", [](auto& o) { o.heads = 129; }},
                    {"heads", "1 to 128", [](auto& o) { o.heads = 0; }},
                    {"max_topk", "1 to 4096", [](auto& o) { o.max_topk = 4097; }},
                    {"max_topk", "1 to 4096", [](auto& o) { o.max_topk = 0; }},
                    {"d_qk", "576", [](auto& o) { o.d_qk = 640; }},
                    {"d_v", "512", [](auto& o) { o.d_v = 576; }},
                    {"dtype", "bf16", [](auto& o) { o.dtype = DType::u8; }},
                    {"group_size", "0 (off), 2, 4, 8, 16", [](auto& o) { o.group_size = 3; }},
                    {"group_size", "0 (off), 2, 4, 8, 16", [](auto& o) { o.group_size = 1; }},
                    {"workspace_limit", "393", [](auto& o) { o.workspace_limit = Bytes{1000}; }},
                    {"index_kpool", "1", [](auto& o) { o.index_kpool = 4; }}};
  RuntimeOptions runtime_options;
  runtime_options.memory_only = true;
  const auto runtime = Runtime::create(runtime_options);
  REQUIRE(runtime);
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.option);
    SparseMlaPrefillOptions options = legal_options();
    wrong.set(options);
    auto op = SparseMlaPrefill::create(*runtime, options);
    REQUIRE_FALSE(op);
    CHECK(op.error().code == ErrorCode::invalid_argument);
    CHECK(op.error().message.find(wrong.option) != std::string::npos);
    CHECK(op.error().message.find(wrong.legal) != std::string::npos);
  }
}

TEST_CASE("sparse MLA options: a pool that it has not declared is refused with those that have") {
  SparseMlaPrefillOptions options = legal_options();
  options.pool = PoolKind::unified_mla;
  CHECK(check_options(options));
  options.readers = PoolReaders();
  options.readers.declare("flashinfer", PoolKind::unified_mla);
  RuntimeOptions runtime_options;
  runtime_options.memory_only = true;
  const auto runtime = Runtime::create(runtime_options);
  REQUIRE(runtime);
  const auto op = SparseMlaPrefill::create(*runtime, options);
  REQUIRE_FALSE(op);
  CHECK(op.error().code == ErrorCode::unsupported);
  CHECK_MESSAGE(op.error().message.find("'kernwright/sparse_mla_prefill'") != std::string::npos, op.error().message);
  CHECK_MESSAGE(op.error().message.find("accepted are: flashinfer") != std::string::npos, op.error().message);
  options.pool = PoolKind::static_pool;
  CHECK(check_options(options));
}

TEST_CASE("sparse MLA options: deterministic mode turns union off and says so") {
  SparseMlaPrefillOptions options = legal_options();
  options.deterministic = true;
  options.group_size = 8;
  CHECK(choice(options).group_size == 0);
  CHECK(choice(options).reason.find("deterministic") != std::string::npos);
}

TEST_CASE("sparse MLA options: without a union no workspace is asked for") {
  SparseMlaPrefillOptions options = legal_options();
  options.workspace_limit = Bytes{0};
  options.deterministic = true;
  CHECK(check_options(options));
  options.deterministic = false;
  options.group_size = 0;
  CHECK(check_options(options));
}

TEST_CASE("sparse MLA options: auto fills 64 rows where nothing is measured, and follows a table where something is") {
  const std::pair<int, int> unmeasured[]{{1, 16}, {4, 16}, {5, 8}, {8, 8}, {12, 4}, {16, 4}, {20, 2}, {32, 2}, {33, 0}, {64, 0}, {128, 0}};
  for (const auto& [heads, group] : unmeasured) {
    CAPTURE(heads);
    SparseMlaPrefillOptions options = legal_options();
    options.heads = heads;
    CHECK(choice(options).group_size == group);
    CHECK(choice(options).reason.find("auto") != std::string::npos);
  }
  const cases::TemporaryFolder folder;
  std::ofstream(folder.path() / "mine.toml") << "format = 1\n[[preference]]\ntemplate = \"sparse_mla/prefill\"\nwhen = { heads = 8 }\n"
                                                "target = \"host\"\nparameter = \"group_size\"\nvalue = 16\nmeasured = \"by this test\"\n";
  SparseMlaPrefillOptions options = legal_options();
  CHECK(choice(options, folder.path()).group_size == 16);
  options.group_size = 4;
  CHECK(choice(options, folder.path()).group_size == 4);
  CHECK(choice(options, folder.path()).reason.empty());
}

TEST_CASE("sparse MLA options: a preferred group that is none, and one of other sources, make way for the next row, and are said") {
  const auto row = [](int value, const char* fields) {
    return fmt::format("[[preference]]\ntemplate = \"sparse_mla/prefill\"\ntarget = \"host\"\nparameter = \"group_size\"\nvalue = {}\n{}",
                       value, fields);
  };
  const cases::TemporaryFolder folder;
  std::ofstream(folder.path() / "mine.toml") << "format = 1\n" + row(4, "when = { heads = 8, d_qk = 576 }\ndigest = \"old\"\n") +
                                                    row(3, "when = { heads = 8 }\n") + row(16, "when = { hedas = 8 }\n") + row(2, "");
  tests::LogLines log;
  CHECK(choice(legal_options(), folder.path(), &log).group_size == 2);
  CHECK(log.count(LogLevel::warn) == 3);
  CHECK(log.containing("holds for other sources of sparse_mla/prefill than these, and 1 of 4 rows for it is passed over") == 1);
  CHECK(log.containing("mine.toml prefers group_size 3") == 1);
  CHECK(log.containing("{ hedas = 8 }") == 1);
}
