// Structs of other ages, null handles, the error text.
#include <cstddef>
#include <functional>
#include <thread>

#include "c_api_fixture.hpp"

namespace kernwright::tests::c {
namespace {

/// A newer header's struct: the known one, and members that this library has not heard of.
struct NewerOptions {
  kw_sparse_mla_prefill_options known;
  std::uint64_t flags;
  const char* name;
};

NewerOptions newer() {
  NewerOptions options{};
  options.known.size = sizeof(options);
  options.known.device = KW_HOST;
  options.known.heads = 2;
  options.known.max_topk = 8;
  options.known.group_size = KW_UNION_OFF;
  return options;
}

TEST_CASE("C structs: a newer struct is taken while its new members are zero") {
  const auto runtime = shared_runtime();
  NewerOptions options = newer();
  kw_sparse_mla_prefill* op = nullptr;
  CHECK_MESSAGE(kw_sparse_mla_prefill_create(runtime.get(), &options.known, &op) == KW_OK, kw_last_error());
  Owned<kw_sparse_mla_prefill> first(op);

  options.flags = 0x100;
  CHECK(kw_sparse_mla_prefill_create(runtime.get(), &options.known, &op) == KW_INVALID_ARGUMENT);
  CHECK(op == nullptr);
  CHECK(says("options: byte"));
  CHECK(says("newer members"));
}

TEST_CASE("C structs: a reserved member that is not 0 is refused") {
  const auto runtime = shared_runtime();
  auto options = newer().known;
  options.size = sizeof(options);
  options.reserved = 3;
  kw_sparse_mla_prefill* op = nullptr;
  CHECK(kw_sparse_mla_prefill_create(runtime.get(), &options, &op) == KW_INVALID_ARGUMENT);
  CHECK(says("reserved is 3; legal is 0"));
  auto wanted = made<kw_runtime_options>();
  wanted.reserved = 1;
  kw_runtime* other = nullptr;
  CHECK(kw_runtime_create(&wanted, &other) == KW_INVALID_ARGUMENT);
  CHECK(says("reserved is 1; legal is 0"));
}

TEST_CASE("C structs: members behind an older struct's size count as zero") {
  const auto runtime = shared_runtime();
  auto options = made<kw_sparse_mla_prefill_options>();
  options.device = KW_HOST;
  options.heads = 2;
  options.max_topk = 8;
  options.group_size = KW_UNION_OFF;
  options.workspace_limit = 1;    // too small for any union
  options.tile = "no such tile";  // refused where it is read
  options.deterministic = 0;
  kw_sparse_mla_prefill* op = nullptr;
  CHECK(kw_sparse_mla_prefill_create(runtime.get(), &options, &op) == KW_INVALID_ARGUMENT);
  options.size = offsetof(kw_sparse_mla_prefill_options, workspace_limit);
  CHECK_MESSAGE(kw_sparse_mla_prefill_create(runtime.get(), &options, &op) == KW_OK, kw_last_error());
  Owned<kw_sparse_mla_prefill> made_op(op);
}

TEST_CASE("C structs: what is written ends at the caller's size, and unknown members are zeroed") {
  const auto runtime = shared_runtime();
  struct {
    kw_device_info known;
    std::uint64_t unknown;
  } wide{};
  std::memset(&wide, 0x5a, sizeof(wide));
  wide.known.size = sizeof(wide);
  REQUIRE_MESSAGE(kw_runtime_device(runtime.get(), KW_HOST, &wide.known) == KW_OK, kw_last_error());
  CHECK(std::string(static_cast<const char*>(wide.known.target)) == "host");
  CHECK(wide.known.multiprocessors > 0);
  CHECK(wide.known.size == sizeof(wide));
  CHECK(wide.unknown == 0);

  kw_device_info narrow;
  std::memset(&narrow, 0x5a, sizeof(narrow));
  narrow.size = offsetof(kw_device_info, multiprocessors);
  narrow.size -= narrow.size % alignof(kw_device_info);
  const std::size_t end = narrow.size;
  REQUIRE_MESSAGE(kw_runtime_device(runtime.get(), KW_HOST, &narrow) == KW_OK, kw_last_error());
  CHECK(narrow.capability_major == 0);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&narrow);
  for (std::size_t i = end; i < sizeof(narrow); ++i) CHECK(bytes[i] == 0x5a);
}

TEST_CASE("C structs: a size that no header has is refused") {
  const auto runtime = shared_runtime();
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof(kw_counters) + 1, std::size_t{1} << 40}) {
    auto counters = made<kw_counters>();
    counters.size = size;
    CHECK(kw_runtime_counters(runtime.get(), &counters) == KW_INVALID_ARGUMENT);
    CHECK(says("kw_init()"));
    auto request = made<kw_prepare_request>();
    request.size = size;
    kw_kernel* kernel = nullptr;
    CHECK(kw_prepare(runtime.get(), &request, &kernel) == KW_INVALID_ARGUMENT);
  }
}

TEST_CASE("C interface: a null handle or pointer is an error that names it") {
  const auto owned = shared_runtime();
  const kw_runtime* const runtime = owned.get();
  kw_kernel* kernel = nullptr;
  kw_future* future = nullptr;
  kw_reports* reports = nullptr;
  kw_warm_result* warmed = nullptr;
  kw_sparse_mla_prefill* prefill = nullptr;
  kw_paged_kv* paged = nullptr;
  kw_paged_mla_decode* decode = nullptr;
  kw_unified_pool* pool = nullptr;
  kw_buffer* buffer = nullptr;
  kw_stream* stream = nullptr;
  auto counters = made<kw_counters>();
  auto request = made<kw_prepare_request>();
  auto options = made<kw_sparse_mla_prefill_options>();
  auto arguments = made<kw_sparse_mla_prefill_arguments>();
  auto plan = made<kw_plan>();
  auto tensor = made<kw_tensor>();
  auto item = made<kw_warm_item>();
  auto info = made<kw_device_info>();
  std::int32_t number = 0;
  std::int64_t page = 0;
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  const char* text = nullptr;
  void* data = nullptr;
  const struct {
    const char* named;
    std::function<kw_status()> call;
  } calls[] = {
      {"runtime", [&] { return kw_runtime_create(nullptr, nullptr); }},
      {"runtime", [&] { return kw_runtime_sealed(nullptr, &number); }},
      {"sealed", [&] { return kw_runtime_sealed(runtime, nullptr); }},
      {"folder", [&] { return kw_runtime_store_folder(runtime, nullptr); }},
      {"runtime", [&] { return kw_runtime_store_folder(nullptr, &text); }},
      {"count", [&] { return kw_runtime_cuda_device_count(runtime, nullptr); }},
      {"info", [&] { return kw_runtime_device(runtime, KW_HOST, nullptr); }},
      {"runtime", [&] { return kw_runtime_device(nullptr, KW_HOST, &info); }},
      {"counters", [&] { return kw_runtime_counters(runtime, nullptr); }},
      {"runtime", [&] { return kw_runtime_counters(nullptr, &counters); }},
      {"template_name", [&] { return kw_runtime_template_launches(runtime, nullptr, &bytes); }},
      {"source", [&] { return kw_runtime_register_template(runtime, nullptr); }},
      {"request", [&] { return kw_prepare(runtime, nullptr, &kernel); }},
      {"kernel", [&] { return kw_prepare(runtime, &request, nullptr); }},
      {"request.template_name", [&] { return kw_prepare(runtime, &request, &kernel); }},
      {"runtime", [&] { return kw_prepare_async(nullptr, &request, &future); }},
      {"kernel", [&] { return kw_kernel_plan(nullptr, &plan); }},
      {"kernel", [&] { return kw_kernel_reports(nullptr, &reports); }},
      {"kernel", [&] { return kw_kernel_launch(nullptr, 1, 1, 1, &number, sizeof(number), nullptr); }},
      {"reports", [&] { return kw_reports_count(nullptr, &count); }},
      {"future", [&] { return kw_future_wait(nullptr, 0); }},
      {"future", [&] { return kw_future_kernel(nullptr, &kernel); }},
      {"requests", [&] { return kw_warm(runtime, nullptr, 1, nullptr, &warmed); }},
      {"result", [&] { return kw_warm(runtime, nullptr, 0, nullptr, nullptr); }},
      {"file", [&] { return kw_warm_launch_list(runtime, nullptr, nullptr, 0, nullptr, &warmed); }},
      {"targets[0]", [&] { return kw_warm_launch_list(runtime, "list.toml", nullptr, 1, nullptr, &warmed); }},
      {"result", [&] { return kw_warm_result_item(nullptr, 0, &item); }},
      {"file", [&] { return kw_runtime_write_launch_list(runtime, nullptr); }},
      {"options", [&] { return kw_sparse_mla_prefill_create(runtime, nullptr, &prefill); }},
      {"runtime", [&] { return kw_sparse_mla_prefill_create(nullptr, &options, &prefill); }},
      {"op", [&] { return kw_sparse_mla_prefill_workspace_bytes(nullptr, 1, 1, &bytes); }},
      {"op", [&] { return kw_sparse_mla_prefill_run(nullptr, &arguments, nullptr); }},
      {"op", [&] { return kw_sparse_mla_prefill_union(nullptr, &number, nullptr); }},
      {"options", [&] { return kw_paged_kv_create(runtime, nullptr, &paged); }},
      {"op", [&] { return kw_paged_kv_translate(nullptr, &tensor, &tensor, nullptr, nullptr, nullptr); }},
      {"options", [&] { return kw_paged_mla_decode_create(runtime, nullptr, &decode); }},
      {"op", [&] { return kw_paged_mla_decode_run(nullptr, nullptr, nullptr); }},
      {"options", [&] { return kw_unified_pool_create(runtime, nullptr, &pool); }},
      {"pool", [&] { return kw_unified_pool_allocate(nullptr, KW_POOL_KV, 1, &page, nullptr); }},
      {"pool", [&] { return kw_unified_pool_dense_view(nullptr, 0, &tensor); }},
      {"buffer", [&] { return kw_buffer_create(runtime, KW_HOST, 1, nullptr); }},
      {"buffer", [&] { return kw_buffer_data(nullptr, &data); }},
      {"buffer", [&] { return kw_buffer_upload(nullptr, &page, 8); }},
      {"runtime", [&] { return kw_stream_create(nullptr, KW_HOST, &stream); }},
      {"stream", [&] { return kw_stream_synchronize(nullptr); }},
      {"runtime", [&] { return kw_buffer_create(nullptr, KW_HOST, 1, &buffer); }},
  };
  int index = 0;
  for (const auto& [named, call] : calls) {
    CAPTURE(index++);
    CAPTURE(named);
    CHECK(call() == KW_INVALID_ARGUMENT);
    CHECK_MESSAGE(last_error().rfind("invalid_argument: " + std::string(named) + " is NULL", 0) == 0, last_error());
  }
  kw_runtime_destroy(nullptr);
  kw_kernel_destroy(nullptr);
  kw_future_destroy(nullptr);
  kw_reports_destroy(nullptr);
  kw_warm_result_destroy(nullptr);
  kw_sparse_mla_prefill_destroy(nullptr);
  kw_paged_kv_destroy(nullptr);
  kw_paged_mla_decode_destroy(nullptr);
  kw_unified_pool_destroy(nullptr);
  kw_buffer_destroy(nullptr);
  kw_stream_destroy(nullptr);
}

TEST_CASE("C interface: the error text is the calling thread's own") {
  const auto runtime = shared_runtime();
  auto info = made<kw_device_info>();
  CHECK(kw_runtime_device(runtime.get(), -7, &info) == KW_INVALID_ARGUMENT);
  CHECK(says("the device is -7"));
  std::thread([&] {
    CHECK(last_error().empty());
    CHECK(kw_reports_count(nullptr, nullptr) == KW_INVALID_ARGUMENT);
    CHECK(says("reports is NULL"));
  }).join();
  CHECK(says("the device is -7"));
}

TEST_CASE("C interface: every status has a name") {
  CHECK(std::string(kw_status_name(KW_OK)) == "ok");
  CHECK(std::string(kw_status_name(KW_INVALID_ARGUMENT)) == "invalid_argument");
  CHECK(std::string(kw_status_name(KW_SEALED_MISS)) == "sealed_miss");
  CHECK(std::string(kw_status_name(KW_INTERNAL)) == "internal");
  CHECK(std::string(kw_status_name(KW_INTERNAL + 1)) == "unknown");
  CHECK(std::string(kw_status_name(-1)) == "unknown");
}

TEST_CASE("C interface: options out of range are refused by name") {
  kw_runtime* runtime = nullptr;
  const auto refused = [&](const char* named, auto set) {
    auto options = made<kw_runtime_options>();
    set(options);
    CAPTURE(named);
    CHECK(kw_runtime_create(&options, &runtime) == KW_INVALID_ARGUMENT);
    CHECK(runtime == nullptr);
    CHECK_MESSAGE(says(named), last_error());
  };
  refused("options.sealed", [](kw_runtime_options& o) { o.sealed = 3; });
  refused("options.log_level", [](kw_runtime_options& o) { o.log_level = 5; });
  refused("options.host_mode", [](kw_runtime_options& o) { o.host_mode = 4; });
  refused("options.read_only_stores[0]", [](kw_runtime_options& o) { o.read_only_store_count = 1; });
}

}  // namespace
}  // namespace kernwright::tests::c
