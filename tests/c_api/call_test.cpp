// Calls on the host interpreter, whose answers are known.
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>

#include "c_api_fixture.hpp"
#include "fixtures/temporary_folder.hpp"

namespace kernwright::tests::c {
namespace {

constexpr std::int64_t kTokens = 7, kHeads = 2, kRows = 24, kTopk = 8, kQk = 576, kV = 512;

/// With q = 0 every selected row weighs the same: out is the rows' mean, lse is ln K, the largest logit 0.
struct MeanProblem {
  std::vector<std::uint16_t> q = std::vector<std::uint16_t>(kTokens * kHeads * kQk);
  std::vector<std::uint16_t> kv = std::vector<std::uint16_t>(kRows * kQk);
  std::vector<std::int32_t> indices = std::vector<std::int32_t>(kTokens * kTopk);
  std::vector<std::uint16_t> out = std::vector<std::uint16_t>(kTokens * kHeads * kV, 0x7fc0);
  std::vector<float> lse = std::vector<float>(kTokens * kHeads, -1);
  std::vector<float> max_logits = std::vector<float>(kTokens * kHeads, -1);

  MeanProblem() {
    for (std::size_t i = 0; i < kv.size(); ++i) kv[i] = bf16(static_cast<float>((i / kQk * 5 + i % kQk) % 8));
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int32_t>((i / kTopk + i % kTopk * 3) % kRows);
  }
  [[nodiscard]] std::size_t wrong_values() const {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < kTopk; ++k) {
        sum += from_bf16(kv[static_cast<std::size_t>(indices[i / (kHeads * kV) * kTopk + k]) * kQk + i % kV]);
      }
      wrong += from_bf16(out[i]) != sum / kTopk ? 1 : 0;
    }
    for (const float value : lse) wrong += std::abs(value - std::log(float{kTopk})) < 1e-5F ? 0 : 1;
    for (const float value : max_logits) wrong += value == 0 ? 0 : 1;
    return wrong;
  }
};

Owned<kw_sparse_mla_prefill> make_op(const kw_runtime* runtime, std::int32_t group_size) {
  auto options = made<kw_sparse_mla_prefill_options>();
  options.device = KW_HOST;
  options.heads = kHeads;
  options.max_topk = kTopk;
  options.group_size = group_size;
  kw_sparse_mla_prefill* op = nullptr;
  REQUIRE_MESSAGE(kw_sparse_mla_prefill_create(runtime, &options, &op) == KW_OK, kw_last_error());
  return Owned<kw_sparse_mla_prefill>(op);
}

kw_status run(const kw_sparse_mla_prefill* op, MeanProblem& problem) {
  const kw_tensor q = dense(problem.q, KW_BF16, {kTokens, kHeads, kQk}), kv = dense(problem.kv, KW_BF16, {kRows, kQk}),
                  indices = dense(problem.indices, KW_I32, {kTokens, kTopk}), out = dense(problem.out, KW_BF16, {kTokens, kHeads, kV}),
                  lse = dense(problem.lse, KW_F32, {kTokens, kHeads}), most = dense(problem.max_logits, KW_F32, {kTokens, kHeads});
  auto arguments = made<kw_sparse_mla_prefill_arguments>();
  arguments.q = &q;
  arguments.kv = &kv;
  arguments.indices = &indices;
  arguments.out = &out;
  arguments.lse = &lse;
  arguments.max_logits = &most;
  arguments.sm_scale = 0.25F;
  REQUIRE(kw_sparse_mla_prefill_workspace_bytes(op, kTokens, kRows, &arguments.workspace_bytes) == KW_OK);
  std::vector<std::byte> room(arguments.workspace_bytes + 256);
  void* aligned = room.data();
  std::size_t space = room.size();
  arguments.workspace = std::align(256, arguments.workspace_bytes, aligned, space);
  return kw_sparse_mla_prefill_run(op, &arguments, nullptr);
}

TEST_CASE("C sparse MLA prefill: the mean of the selected rows, with and without union") {
  const auto runtime = shared_runtime();
  for (const std::int32_t asked : {KW_UNION_OFF + 0, 4}) {
    CAPTURE(asked);
    const auto op = make_op(runtime.get(), asked);
    MeanProblem problem;
    REQUIRE_MESSAGE(run(op.get(), problem) == KW_OK, kw_last_error());
    CHECK(problem.wrong_values() == 0);
    std::int32_t used = 0;
    const char* reason = nullptr;
    CHECK(kw_sparse_mla_prefill_union(op.get(), &used, &reason) == KW_OK);
    CHECK(used == asked);
    CHECK(std::string(reason).empty());
    kw_reports* made_reports = nullptr;
    REQUIRE(kw_sparse_mla_prefill_reports(op.get(), &made_reports) == KW_OK);
    const Owned<kw_reports> reports(made_reports);
    std::size_t count = 0;
    CHECK(kw_reports_count(reports.get(), &count) == KW_OK);
    CHECK(count == (asked == KW_UNION_OFF ? 1 : 3));
    auto report = made<kw_prepare_report>();
    CHECK(kw_reports_get(reports.get(), count - 1, &report) == KW_OK);
    CHECK(std::string(report.template_name) == "sparse_mla/prefill");
    CHECK(report.device == KW_HOST);
    CHECK(std::string(report.key).size() == 32);
    CHECK(kw_reports_get(reports.get(), count, &report) == KW_INVALID_ARGUMENT);
  }
}

TEST_CASE("C sparse MLA prefill: wrong tensors are refused by name") {
  const auto runtime = shared_runtime();
  const auto op = make_op(runtime.get(), KW_UNION_OFF);
  MeanProblem problem;
  kw_tensor q = dense(problem.q, KW_BF16, {kTokens, kHeads, kQk});
  auto arguments = made<kw_sparse_mla_prefill_arguments>();
  arguments.q = &q;
  CHECK(kw_sparse_mla_prefill_run(op.get(), &arguments, nullptr) == KW_INVALID_ARGUMENT);
  CHECK(says("argument kv"));
  q.dtype = 17;
  CHECK(kw_sparse_mla_prefill_run(op.get(), &arguments, nullptr) == KW_INVALID_ARGUMENT);
  CHECK(says("arguments.q is 17"));
  q.dtype = KW_BF16;
  q.rank = 9;
  CHECK(kw_sparse_mla_prefill_run(op.get(), &arguments, nullptr) == KW_INVALID_ARGUMENT);
  CHECK(says("the rank is 9"));
}

TEST_CASE("C futures: an op is made in the background, and asked for as what it is") {
  const auto runtime = shared_runtime();
  auto options = made<kw_sparse_mla_prefill_options>();
  options.device = KW_HOST;
  options.heads = kHeads;
  options.max_topk = kTopk;
  options.group_size = KW_UNION_OFF;
  kw_future* made_future = nullptr;
  REQUIRE(kw_sparse_mla_prefill_create_async(runtime.get(), &options, &made_future) == KW_OK);
  const Owned<kw_future> future(made_future);
  CHECK(kw_future_wait(future.get(), -1) == KW_OK);
  CHECK(kw_future_wait(future.get(), 0) == KW_OK);
  CHECK(kw_future_wait(future.get(), std::nan("")) == KW_INVALID_ARGUMENT);
  kw_kernel* kernel = nullptr;
  CHECK(kw_future_kernel(future.get(), &kernel) == KW_INVALID_ARGUMENT);
  CHECK(says("not made for a kernel"));
  for (int i = 0; i < 2; ++i) {  // each answer is a handle of its own
    kw_sparse_mla_prefill* op = nullptr;
    REQUIRE(kw_future_sparse_mla_prefill(future.get(), &op) == KW_OK);
    const Owned<kw_sparse_mla_prefill> owned(op);
    MeanProblem problem;
    CHECK(run(op, problem) == KW_OK);
    CHECK(problem.wrong_values() == 0);
  }
  options.heads = 129;
  REQUIRE(kw_sparse_mla_prefill_create_async(runtime.get(), &options, &made_future) == KW_OK);
  const Owned<kw_future> failing(made_future);
  kw_sparse_mla_prefill* none = nullptr;
  CHECK(kw_future_sparse_mla_prefill(failing.get(), &none) == KW_INVALID_ARGUMENT);
  CHECK(says("heads is 129"));
  CHECK(none == nullptr);
}

TEST_CASE("C runtime: sealed over an empty store answers sealed_miss and compiles nothing") {
  const TemporaryFolder folder;
  auto options = made<kw_runtime_options>();
  const std::string store = folder.path().string();
  options.store = store.c_str();
  options.read_only_stores = &options.store;  // not null with a count of 0: none
  options.sealed = KW_SWITCH_ON;
  kw_runtime* made_runtime = nullptr;
  REQUIRE(kw_runtime_create(&options, &made_runtime) == KW_OK);
  const Owned<kw_runtime> runtime(made_runtime);
  std::int32_t sealed = 0;
  const char* where = nullptr;
  CHECK(kw_runtime_sealed(runtime.get(), &sealed) == KW_OK);
  CHECK(sealed == 1);
  CHECK(kw_runtime_store_folder(runtime.get(), &where) == KW_OK);
  CHECK(where == store);
  auto op_options = made<kw_sparse_mla_prefill_options>();
  op_options.device = KW_HOST;
  op_options.heads = kHeads;
  kw_sparse_mla_prefill* op = nullptr;
  CHECK(kw_sparse_mla_prefill_create(runtime.get(), &op_options, &op) == KW_SEALED_MISS);
  CHECK_MESSAGE(last_error().rfind("sealed_miss: ", 0) == 0, last_error());
  auto counters = made<kw_counters>();
  CHECK(kw_runtime_counters(runtime.get(), &counters) == KW_OK);
  CHECK(counters.compiles == 0);
}

std::string read(const std::string& name) {
  std::ifstream file(std::string(OWN_KERNEL_FOLDER) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Lines {
  std::mutex mutex;
  std::string text;
  static void take(void* user, kw_log_level, const char* line, std::size_t length) {
    auto& lines = *static_cast<Lines*>(user);
    const std::lock_guard lock(lines.mutex);
    lines.text.append(line, length).push_back('\n');
  }
};

TEST_CASE("C kernels: an own template is registered, steps down, launches, and is counted and logged") {
  constexpr std::size_t kHidden = 16384, kLines = 3;
  const TemporaryFolder folder;
  const std::string store = (folder.path() / "store").string();
  Lines lines;
  auto options = made<kw_runtime_options>();
  options.store = store.c_str();
  options.host_shared_memory = 70000;  // one row of 16,384 floats, not two
  options.log = Lines::take;
  options.log_user = &lines;
  options.log_level = KW_LOG_DEBUG;
  kw_runtime* made_runtime = nullptr;
  REQUIRE(kw_runtime_create(&options, &made_runtime) == KW_OK);
  const Owned<kw_runtime> runtime(made_runtime);

  const std::string manifest = read("engine/rms_norm.toml");
  std::vector<kw_source_file> files;
  std::vector<std::string> texts;
  const std::vector<const char*> names{"engine/rms_norm.cu", "engine/rms_norm_plan.cuh", "engine/rms_norm_params.cuh"};
  for (const char* name : names) texts.push_back(read(name));
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto file = made<kw_source_file>();
    file.name = names[i];
    file.content = texts[i].c_str();
    files.push_back(file);
  }
  const std::vector<const kw_source_file*> pointers{&files[0], &files[1], &files[2]};
  auto source = made<kw_template_source>();
  source.manifest = manifest.c_str();
  source.files = pointers.data();
  source.file_count = pointers.size();
  REQUIRE_MESSAGE(kw_runtime_register_template(runtime.get(), &source) == KW_OK, kw_last_error());

  struct {
    const float* x;
    const float* weight;
    float* out;
    long long rows;
    float epsilon;
  } params{};
  auto request = made<kw_prepare_request>();
  request.template_name = "engine/rms_norm";
  request.specialisation = "hidden=16384";
  request.device = KW_HOST;
  request.params_bytes = sizeof(params);
  kw_kernel* made_kernel = nullptr;
  REQUIRE_MESSAGE(kw_prepare(runtime.get(), &request, &made_kernel) == KW_OK, kw_last_error());
  const Owned<kw_kernel> kernel(made_kernel);
  auto plan = made<kw_plan>();
  REQUIRE(kw_kernel_plan(kernel.get(), &plan) == KW_OK);
  CHECK(plan.rows_per_block == 1);
  CHECK(plan.params_bytes == sizeof(params));

  // Each row one value: its root mean square is that value, so out is ±1.
  std::vector<float> x(kHidden * kLines), weight(kHidden, 1.0F), out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 2.0F : -2.0F;
  params = {x.data(), weight.data(), out.data(), kLines, 0.0F};
  CHECK(kw_kernel_launch(kernel.get(), kLines, 1, 1, &params, sizeof(params) - 1, nullptr) == KW_INVALID_ARGUMENT);
  REQUIRE_MESSAGE(kw_kernel_launch(kernel.get(), kLines, 1, 1, &params, sizeof(params), nullptr) == KW_OK, kw_last_error());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) wrong += std::abs(out[i] - (i % 2 == 0 ? 1.0F : -1.0F)) < 1e-5F ? 0 : 1;
  CHECK(wrong == 0);

  std::uint64_t launches = 0;
  CHECK(kw_runtime_template_launches(runtime.get(), "engine/rms_norm", &launches) == KW_OK);
  CHECK(launches == 1);
  auto counters = made<kw_counters>();
  CHECK(kw_runtime_counters(runtime.get(), &counters) == KW_OK);
  CHECK(counters.step_downs == 2);
  CHECK(counters.launches == 1);
  kw_reports* made_reports = nullptr;
  REQUIRE(kw_kernel_reports(kernel.get(), &made_reports) == KW_OK);
  const Owned<kw_reports> reports(made_reports);
  auto report = made<kw_prepare_report>();
  CHECK(kw_reports_get(reports.get(), 0, &report) == KW_OK);
  CHECK(std::string(report.tile_fitted) == "portable:m1n32s1w1");
  CHECK(std::string(report.tile_asked) == "portable:m4n32s1w4");
  CHECK(std::string(report.fit_reason).find("shared memory") != std::string::npos);
  const std::lock_guard lock(lines.mutex);
  CHECK(lines.text.find("engine/rms_norm") != std::string::npos);
}

struct Progress {
  int calls = 0;
  int finished = 0;
  std::int32_t answer = 0;
  static std::int32_t take(void* user, const kw_warm_progress* progress) {
    auto& seen = *static_cast<Progress*>(user);
    ++seen.calls;
    if (progress->finished != nullptr) ++seen.finished;
    CHECK(progress->done <= progress->total);
    return seen.answer;
  }
};

TEST_CASE("C warming: items, progress, and a callback that cancels") {
  const TemporaryFolder folder;
  const std::string store = folder.path().string();
  auto options = made<kw_runtime_options>();
  options.store = store.c_str();
  kw_runtime* made_runtime = nullptr;
  REQUIRE(kw_runtime_create(&options, &made_runtime) == KW_OK);
  const Owned<kw_runtime> runtime(made_runtime);
  auto request = made<kw_warm_request>();
  request.template_name = "sparse_mla/union_build";
  request.specialisation = "group_size=2";
  request.target = "host";
  request.first_only = 1;
  const kw_warm_request* requests[] = {&request};
  Progress progress;
  auto warming = made<kw_warm_options>();
  warming.progress = Progress::take;
  warming.user = &progress;

  progress.answer = 1;
  kw_warm_result* made_result = nullptr;
  REQUIRE_MESSAGE(kw_warm(runtime.get(), requests, 1, &warming, &made_result) == KW_OK, kw_last_error());
  const Owned<kw_warm_result> cancelled(made_result);
  auto summary = made<kw_warm_summary>();
  CHECK(kw_warm_result_summary(cancelled.get(), &summary) == KW_OK);
  CHECK(summary.cancelled == 1);
  CHECK(summary.built == 0);

  progress = Progress{};
  REQUIRE_MESSAGE(kw_warm(runtime.get(), requests, 1, &warming, &made_result) == KW_OK, kw_last_error());
  const Owned<kw_warm_result> warmed(made_result);
  summary = made<kw_warm_summary>();
  CHECK(kw_warm_result_summary(warmed.get(), &summary) == KW_OK);
  CHECK(summary.built == 1);
  CHECK(summary.failed == 0);
  CHECK(progress.finished >= 1);
  std::size_t count = 0;
  CHECK(kw_warm_result_count(warmed.get(), &count) == KW_OK);
  REQUIRE(count == 1);
  auto item = made<kw_warm_item>();
  CHECK(kw_warm_result_item(warmed.get(), 0, &item) == KW_OK);
  CHECK(std::string(item.template_name) == "sparse_mla/union_build");
  CHECK(std::string(item.target) == "host");
  CHECK(item.outcome == KW_WARM_BUILT);
  CHECK(std::string(item.key).size() == 32);

  // What was warmed is there for the next runtime, by a launch list as well.
  kw_runtime* made_next = nullptr;
  REQUIRE(kw_runtime_create(&options, &made_next) == KW_OK);
  const Owned<kw_runtime> next(made_next);
  const std::string list = (folder.path() / "list.toml").string();
  CHECK(kw_runtime_write_launch_list(next.get(), list.c_str()) == KW_OK);
  REQUIRE_MESSAGE(kw_warm_launch_list(next.get(), list.c_str(), nullptr, 0, nullptr, &made_result) == KW_OK, kw_last_error());
  kw_warm_result_destroy(made_result);
  REQUIRE(kw_warm(next.get(), requests, 1, nullptr, &made_result) == KW_OK);
  const Owned<kw_warm_result> again(made_result);
  summary = made<kw_warm_summary>();
  CHECK(kw_warm_result_summary(again.get(), &summary) == KW_OK);
  CHECK(summary.hit == 1);
  CHECK(summary.built == 0);
}

}  // namespace
}  // namespace kernwright::tests::c
