// Runtime, templates, prepare and launch for C.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "c_api/handles.hpp"

using namespace kernwright;
using namespace kernwright::c_api;

namespace {

template <class T>
void take(std::optional<T>& option, const char* text) {
  if (text != nullptr) option = text;
}
void take(std::optional<Bytes>& option, std::uint64_t bytes) {
  if (bytes != 0) option = Bytes{bytes};
}

Result<> take(std::optional<bool>& option, kw_switch given, std::string_view name) {
  if (given == KW_SWITCH_DEFAULT) return {};
  if (given != KW_SWITCH_ON && given != KW_SWITCH_OFF) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("options.{} is {}; legal is KW_SWITCH_DEFAULT, KW_SWITCH_ON or KW_SWITCH_OFF", name, given));
  }
  option = given == KW_SWITCH_ON;
  return {};
}

Result<> take(std::vector<std::filesystem::path>& folders, const char* const* texts, size_t count, std::string_view name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (texts == nullptr || texts[i] == nullptr) return null_pointer(fmt::format("options.{}[{}]", name, i));
    folders.emplace_back(texts[i]);
  }
  return {};
}

Result<> take_log(RuntimeOptions& options, const kw_runtime_options& given) {
  if (given.log_level < KW_LOG_DEFAULT || given.log_level > KW_LOG_DEBUG) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("options.log_level is {}; legal is {} to {}", given.log_level, int{KW_LOG_DEFAULT}, int{KW_LOG_DEBUG}));
  }
  if (given.log_level != KW_LOG_DEFAULT) options.log_level = static_cast<LogLevel>(given.log_level - 1);
  if (given.log == nullptr) return {};
  options.log = [call = given.log, user = given.log_user](LogLevel level, std::string_view line) {
    const std::string ended(line);  // a view need not end in 0
    call(user, static_cast<kw_log_level>(level) + 1, ended.c_str(), ended.size());
  };
  return {};
}
static_assert(static_cast<int>(LogLevel::error) + 1 == KW_LOG_ERROR && static_cast<int>(LogLevel::debug) + 1 == KW_LOG_DEBUG);

Result<> take_host(HostOptions& host, const kw_runtime_options& given) {
  if (given.host_mode < KW_HOST_MODE_DEFAULT || given.host_mode > KW_HOST_THREADS) {
    return fail(ErrorCode::invalid_argument, fmt::format("options.host_mode is {}; legal is {} to {}", given.host_mode,
                                                         int{KW_HOST_MODE_DEFAULT}, int{KW_HOST_THREADS}));
  }
  if (given.host_mode != KW_HOST_MODE_DEFAULT) host.mode = static_cast<HostMode>(given.host_mode - 1);
  host.workers = given.host_workers;
  take(host.shared_memory, given.host_shared_memory);
  if (given.host_seed != 0) host.seed = given.host_seed;
  take(host.compiler, given.host_compiler);
  return {};
}
static_assert(static_cast<int>(HostMode::fibers) + 1 == KW_HOST_FIBERS && static_cast<int>(HostMode::threads) + 1 == KW_HOST_THREADS);

Result<RuntimeOptions> read_options(const kw_runtime_options* from) {
  RuntimeOptions options;
  if (from == nullptr) return options;
  const auto given = read_struct(from, "options");
  if (!given) return tl::unexpected<Error>(given.error());
  take(options.store, given->store);
  options.memory_only = given->memory_only != 0;
  if (given->read_only_stores != nullptr || given->read_only_store_count != 0) {
    options.read_only_stores.emplace();
    if (auto r = take(*options.read_only_stores, given->read_only_stores, given->read_only_store_count, "read_only_stores"); !r)
      return fail(std::move(r.error()));
  }
  if (auto r = take(options.store_shared, given->store_shared, "store_shared"); !r) return fail(std::move(r.error()));
  if (auto r = take(options.sealed, given->sealed, "sealed"); !r) return fail(std::move(r.error()));
  options.compiles_at_once = given->compiles_at_once;
  if (given->store_limit != 0) {
    const bool any = given->store_limit == std::numeric_limits<std::uint64_t>::max();
    options.store_limit = Bytes{any ? 0 : given->store_limit};
  }
  take(options.compiler, given->compiler);
  take(options.template_folder, given->template_folder);
  take(options.tuning_folder, given->tuning_folder);
  take(options.cuda_driver, given->cuda_driver);
  take(options.nvrtc, given->nvrtc);
  if (auto r = take(options.nvrtc_search_folders, given->nvrtc_search_folders, given->nvrtc_search_folder_count, "nvrtc_search_folders");
      !r)
    return fail(std::move(r.error()));
  if (given->compile_time_limit_seconds != 0) {
    options.compile_time_limit_seconds = given->compile_time_limit_seconds;
    options.host.compile_time_limit_seconds = given->compile_time_limit_seconds;
  }
  if (given->lock_wait_limit_seconds != 0) options.lock_wait_limit_seconds = given->lock_wait_limit_seconds;
  take(options.shared_memory_limit, given->shared_memory_limit);
  take(options.remote.url, given->remote_url);
  take(options.remote.key_file, given->remote_key_file);
  take(options.remote.name_space, given->remote_name_space);
  if (auto r = take_host(options.host, *given); !r) return fail(std::move(r.error()));
  if (auto r = take_log(options, *given); !r) return fail(std::move(r.error()));
  return options;
}

Result<PrepareRequest> read_request(const kw_prepare_request* from) {
  const auto given = read_struct(from, "request");
  if (!given) return tl::unexpected<Error>(given.error());
  if (auto r = need(given->template_name, "request.template_name"); !r) return fail(std::move(r.error()));
  const auto device = read_device(given->device);
  if (!device) return tl::unexpected<Error>(device.error());
  auto specialisation = Specialisation::parse(text_or_empty(given->specialisation));
  if (!specialisation) return fail(std::move(specialisation.error()));
  auto tile = read_tile(given->tile);
  if (!tile) return fail(std::move(tile.error()));
  return PrepareRequest{given->template_name, std::move(*specialisation), *device, std::move(*tile), given->params_bytes, std::nullopt};
}

template <std::size_t Size>
void copy_text(char (&to)[Size], const std::string& from) {
  const std::size_t length = std::min(from.size(), Size - 1);
  std::copy_n(from.data(), length, static_cast<char*>(to));
}

}  // namespace

extern "C" {

kw_status kw_runtime_create(const kw_runtime_options* options, kw_runtime** runtime) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(runtime, "runtime"); !r) return r;
    auto read = read_options(options);
    if (!read) return fail(std::move(read.error()));
    auto made = Runtime::create(std::move(*read));
    if (!made) return fail(std::move(made.error()));
    std::string folder = made->store_folder().string();
    *runtime = new kw_runtime{std::move(*made), std::move(folder)};
    return {};
  });
}

void kw_runtime_destroy(kw_runtime* runtime) {
  delete runtime;
}

kw_status kw_runtime_sealed(const kw_runtime* runtime, int32_t* sealed) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (auto r = need(sealed, "sealed"); !r) return r;
    *sealed = runtime->runtime.sealed() ? 1 : 0;
    return {};
  });
}

kw_status kw_runtime_store_folder(const kw_runtime* runtime, const char** folder) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (auto r = need(folder, "folder"); !r) return r;
    *folder = runtime->store_folder.c_str();
    return {};
  });
}

kw_status kw_runtime_cuda_device_count(const kw_runtime* runtime, int32_t* count) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (auto r = need(count, "count"); !r) return r;
    *count = 0;
    auto devices = runtime->runtime.cuda_devices();
    if (!devices) return fail(std::move(devices.error()));
    *count = static_cast<int32_t>(devices->size());
    return {};
  });
}

kw_status kw_runtime_device(const kw_runtime* runtime, kw_device device, kw_device_info* info) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    const auto id = read_device(device);
    if (!id) return tl::unexpected<Error>(id.error());
    const auto found = runtime->runtime.device(*id);
    if (!found) return tl::unexpected<Error>(found.error());
    kw_device_info values;
    kw_init(&values);
    values.capability_major = found->capability_major;
    values.capability_minor = found->capability_minor;
    values.max_threads_per_block = found->max_threads_per_block;
    values.multiprocessors = found->multiprocessors;
    values.shared_memory_per_block = found->shared_memory_per_block.count;
    values.l2_bytes = found->l2.count;
    values.memory_bytes = found->memory.count;
    copy_text(values.target, found->target.name());
    copy_text(values.name, found->name);
    return write_struct(info, values, "info");
  });
}

kw_status kw_runtime_counters(const kw_runtime* runtime, kw_counters* counters) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    const Counters from = runtime->runtime.counters();
    kw_counters values;
    kw_init(&values);
    values.memory_hits = from.memory_hits;
    values.store_hits = from.store_hits;
    values.remote_hits = from.remote_hits;
    values.remote_bad = from.remote_bad;
    values.remote_unavailable = from.remote_unavailable;
    values.misses = from.misses;
    values.sealed_misses = from.sealed_misses;
    values.compiles = from.compiles;
    values.compile_seconds = from.compile_seconds;
    values.waits = from.waits;
    values.lock_waits = from.lock_waits;
    values.lock_failures = from.lock_failures;
    values.bad_entries = from.bad_entries;
    values.step_downs = from.step_downs;
    values.fits_read = from.fits_read;
    values.fits_written = from.fits_written;
    values.store_warnings = from.store_warnings;
    for (const auto& [name, count] : from.launches) values.launches += count;
    return write_struct(counters, values, "counters");
  });
}

kw_status kw_runtime_template_launches(const kw_runtime* runtime, const char* template_name, uint64_t* launches) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (auto r = need(template_name, "template_name"); !r) return r;
    if (auto r = need(launches, "launches"); !r) return r;
    const Counters counters = runtime->runtime.counters();
    const auto found = counters.launches.find(template_name);
    *launches = found == counters.launches.end() ? 0 : found->second;
    return {};
  });
}

kw_status kw_runtime_register_template(const kw_runtime* runtime, const kw_template_source* source) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    const auto given = read_struct(source, "source");
    if (!given) return tl::unexpected<Error>(given.error());
    if (auto r = need(given->manifest, "source.manifest"); !r) return r;
    if (given->file_count > 0) {
      if (auto r = need(given->files, "source.files"); !r) return r;
    }
    TemplateSource text{given->manifest, {}};
    for (std::size_t i = 0; i < given->file_count; ++i) {
      const auto file = read_struct(given->files[i], fmt::format("source.files[{}]", i));
      if (!file) return tl::unexpected<Error>(file.error());
      if (auto r = need(file->name, fmt::format("source.files[{}].name", i)); !r) return r;
      if (auto r = need(file->content, fmt::format("source.files[{}].content", i)); !r) return r;
      text.files.push_back(
          {file->name, file->content_bytes == 0 ? std::string(file->content) : std::string(file->content, file->content_bytes)});
    }
    return runtime->runtime.register_template(text);
  });
}

kw_status kw_prepare(const kw_runtime* runtime, const kw_prepare_request* request, kw_kernel** kernel) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(kernel, "kernel"); !r) return r;
    if (auto r = need(runtime, "runtime"); !r) return r;
    const auto read = read_request(request);
    if (!read) return tl::unexpected<Error>(read.error());
    return hand_out(kernel, runtime->runtime.prepare(*read));
  });
}

kw_status kw_prepare_async(const kw_runtime* runtime, const kw_prepare_request* request, kw_future** future) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(future, "future"); !r) return r;
    if (auto r = need(runtime, "runtime"); !r) return r;
    auto read = read_request(request);
    if (!read) return fail(std::move(read.error()));
    *future = new kw_future{runtime->runtime.prepare_async(std::move(*read))};
    return {};
  });
}

void kw_kernel_destroy(kw_kernel* kernel) {
  delete kernel;
}

kw_status kw_kernel_plan(const kw_kernel* kernel, kw_plan* plan) {
  return guarded([&]() -> Result<> {
    if (auto r = need(kernel, "kernel"); !r) return r;
    const Plan& from = kernel->kernel.plan();
    kw_plan values;
    kw_init(&values);
    values.threads = from.threads;
    values.dynamic_shared = from.dynamic_shared;
    values.rows_per_block = from.rows_per_block;
    values.blocks_per_sm = from.blocks_per_sm;
    values.cluster = from.cluster;
    values.params_bytes = from.params_bytes;
    return write_struct(plan, values, "plan");
  });
}

kw_status kw_kernel_reports(const kw_kernel* kernel, kw_reports** reports) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(reports, "reports"); !r) return r;
    if (auto r = need(kernel, "kernel"); !r) return r;
    return hand_out_reports(reports, {kernel->kernel.report()});
  });
}

kw_status kw_kernel_launch(const kw_kernel* kernel, uint32_t x, uint32_t y, uint32_t z, const void* params, size_t params_bytes,
                           kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(kernel, "kernel"); !r) return r;
    if (auto r = need(params, "params"); !r) return r;
    return kernel->kernel.launch_bytes(Grid{x, y, z}, params, params_bytes, StreamHandle{stream});
  });
}

kw_status kw_runtime_write_launch_list(const kw_runtime* runtime, const char* file) {
  return guarded([&]() -> Result<> {
    if (auto r = need(runtime, "runtime"); !r) return r;
    if (auto r = need(file, "file"); !r) return r;
    return runtime->runtime.write_launch_list(file);
  });
}

}  // extern "C"
