// What a prepared launch costs beyond the driver's own (cuda), or beyond a direct call (host).
//
// cuda: batches of 256 launches then a sync, ours and the driver's of the same cubin alternating; the difference of each pair of batches, a
// launch. host: batches of launches of one block of one thread, and of calls of a function that does the same, alternating.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "backend/cuda/driver.hpp"
#include "measurement.hpp"
#include "store/store.hpp"
#include "store_template.hpp"

namespace {

using namespace kernwright;
using namespace kernwright::bench;
using SteadyClock = std::chrono::steady_clock;

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

/// A store that goes with the benchmark.
class TemporaryStore {
 public:
  TemporaryStore() {
    std::string name = (std::filesystem::temp_directory_path() / "kernwright-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TemporaryStore(const TemporaryStore&) = delete;
  TemporaryStore& operator=(const TemporaryStore&) = delete;
  ~TemporaryStore() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Our kernel, prepared, with a place to store to.
struct Prepared {
  Kernel kernel;
  DeviceBuffer out;
  Stream stream;
  StoreParams params;
};

Result<Prepared> prepare(const Runtime& runtime, DeviceId device) {
  if (auto registered = runtime.register_template(store_template()); !registered) return fail(std::move(registered.error()));
  PrepareRequest request;
  request.template_name = std::string(kStoreTemplate);
  request.specialisation.set("unused", std::int64_t{0});
  request.device = device;
  request.params_bytes = sizeof(StoreParams);
  auto kernel = runtime.prepare(request);
  if (!kernel) return fail(std::move(kernel.error()));
  auto out = runtime.allocate(device, Bytes{256});
  if (!out) return fail(std::move(out.error()));
  auto stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  StoreParams params{static_cast<long long*>(out->data()), 7};
  return Prepared{std::move(*kernel), std::move(*out), std::move(*stream), params};
}

/// The same cubin through the driver alone.
class RawKernel {
 public:
  static Result<RawKernel> load(const std::filesystem::path& store, const std::string& key) {
    Store entries(store, FileSystem::posix(), Clock::system());
    const auto entry = entries.show(key);
    if (!entry) return fail(Error(entry.error()));
    if (entry->artifact == nullptr) return fail(ErrorCode::malformed, entry->problem);
    auto driver = Driver::open(std::nullopt);
    if (!driver) return fail(std::move(driver.error()));
    RawKernel raw(std::move(*driver));
    const DriverApi& api = raw.driver_->api();
    // Kernels are loaded into the current context, which the runtime keeps for itself.
    CUresult result = api.device_primary_ctx_retain(&raw.context_, 0);
    if (result == CUDA_SUCCESS) result = api.ctx_push_current(raw.context_);
    if (result == CUDA_SUCCESS)
      result = api.library_load_data(&raw.library_, entry->artifact->binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (result == CUDA_SUCCESS) result = api.library_get_kernel(&raw.kernel_, raw.library_, kStoreEntry);
    CUfunction function = nullptr;
    if (result == CUDA_SUCCESS) result = api.kernel_get_function(&function, raw.kernel_);
    if (result != CUDA_SUCCESS) return fail(raw.driver_->error(result, "loading the raw kernel", ErrorCode::load_failed));
    return raw;
  }
  RawKernel(RawKernel&& other) noexcept
      : driver_(std::move(other.driver_)),
        library_(std::exchange(other.library_, nullptr)),
        kernel_(other.kernel_),
        context_(std::exchange(other.context_, nullptr)) {}
  RawKernel& operator=(RawKernel&&) = delete;
  ~RawKernel() {
    if (library_ != nullptr) driver_->api().library_unload(library_);
    if (context_ == nullptr) return;
    CUcontext popped = nullptr;
    driver_->api().ctx_pop_current(&popped);
    driver_->api().device_primary_ctx_release(0);
  }
  /// What an engine would write: one cuLaunchKernel.
  [[nodiscard]] bool launch(const StoreParams& params, StreamHandle stream) const noexcept {
    void* arguments[] = {const_cast<StoreParams*>(&params)};
    return driver_->api().launch_kernel(reinterpret_cast<CUfunction>(kernel_), 1, 1, 1, 1, 1, 1, 0, static_cast<CUstream>(stream.native),
                                        arguments, nullptr) == CUDA_SUCCESS;
  }

 private:
  explicit RawKernel(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {}
  std::shared_ptr<const Driver> driver_;
  CUlibrary library_ = nullptr;
  CUkernel kernel_ = nullptr;
  CUcontext context_ = nullptr;
};

/// Microseconds a launch in one batch; the time includes neither the sync before nor the one after.
template <class Launch>
Result<double> batch(int launches, const Stream& stream, const Launch& launch) {
  const auto start = SteadyClock::now();
  for (int i = 0; i < launches; ++i) {
    if (!launch()) return fail(ErrorCode::launch_failed, "a launch failed");
  }
  const double microseconds = microseconds_since(start) / launches;
  if (auto synchronized = stream.synchronize(); !synchronized) return fail(std::move(synchronized.error()));
  return microseconds;
}

Result<> verify(const Prepared& prepared) {
  long long stored = 0;
  if (auto downloaded = prepared.out.download(std::as_writable_bytes(std::span(&stored, 1))); !downloaded) return downloaded;
  if (stored == prepared.params.value) return {};
  return fail(ErrorCode::internal, "the kernel did not store its value");
}

/// The direct call's other side: through a pointer that the compiler cannot see through.
[[gnu::noinline]] void direct_store(const StoreParams& params) {
  if (params.value == 0) return;
  *params.out = params.value;
  asm volatile("" ::: "memory");
}

void add(Measurement& measurement, const std::string& name, const std::vector<double>& samples, double factor, const std::string& unit) {
  const Spread s = spread(samples);
  measurement.figures[name] = {{"median_" + unit, s.median * factor},
                               {"p95_" + unit, s.p95 * factor},
                               {"min_" + unit, s.smallest * factor},
                               {"max_" + unit, s.largest * factor}};
}

Result<Measurement> measure(const Runtime& runtime, const Options& options, DeviceId device, const std::filesystem::path& store) {
  const bool cuda = device.backend == BackendKind::cuda;
  auto prepared = prepare(runtime, device);
  if (!prepared) return fail(std::move(prepared.error()));
  std::optional<RawKernel> raw;
  if (cuda) {
    auto loaded = RawKernel::load(store, prepared->kernel.report().key);
    if (!loaded) return fail(std::move(loaded.error()));
    raw.emplace(std::move(*loaded));
  }
  void (*volatile direct)(const StoreParams&) = &direct_store;
  const auto ours = [&] { return prepared->kernel.launch(Grid{}, prepared->params, prepared->stream.handle()).has_value(); };
  const auto theirs = [&] {
    if (raw) return raw->launch(prepared->params, prepared->stream.handle());
    direct(prepared->params);
    return true;
  };
  const int launches = cuda ? 256 : 4096;
  const int batches = options.repetitions > 0 ? options.repetitions : 200;
  std::vector<double> ours_us, raw_us, difference_us;
  for (int i = -5; i < batches; ++i) {
    // Which goes first alternates too: the second finds warmer caches.
    const bool ours_first = i % 2 == 0;
    Result<double> first = ours_first ? batch(launches, prepared->stream, ours) : batch(launches, prepared->stream, theirs);
    if (!first) return fail(std::move(first.error()));
    Result<double> second = ours_first ? batch(launches, prepared->stream, theirs) : batch(launches, prepared->stream, ours);
    if (!second) return fail(std::move(second.error()));
    if (i < 0) continue;
    ours_us.push_back(ours_first ? *first : *second);
    raw_us.push_back(ours_first ? *second : *first);
    difference_us.push_back(ours_us.back() - raw_us.back());
  }
  if (auto verified = verify(*prepared); !verified) return fail(std::move(verified.error()));

  Measurement measurement;
  measurement.benchmark = "launch_cost";
  measurement.command = fmt::format("build/release/benchmarks/launch_cost --target {} --repetitions {}", options.target, batches);
  const double factor = cuda ? 1 : 1000;
  const std::string unit = cuda ? "us" : "ns";
  add(measurement, "ours_per_launch", ours_us, factor, unit);
  add(measurement, cuda ? "cuLaunchKernel_per_launch" : "direct_call", raw_us, factor, unit);
  add(measurement, "difference_per_launch", difference_us, factor, unit);
  measurement.figures["shape"] = {{"launches_per_batch", launches}, {"batches", batches}};
  return measurement;
}

int run(int argc, char** argv) {
  const Result<Options> options =
      parse_options(argc, argv, "launch_cost: what a prepared launch costs beside the driver's own, or a direct call");
  if (!options) return report(options.error());
  const TemporaryStore store;
  RuntimeOptions runtime_options;
  runtime_options.store = store.path();
  const Result<Runtime> runtime = Runtime::create(runtime_options);
  if (!runtime) return report(runtime.error());
  const DeviceId device = options->target == "cuda" ? DeviceId::cuda(0) : DeviceId::host();
  const Result<Measurement> measurement = measure(*runtime, *options, device, store.path());
  if (!measurement) return report(measurement.error());
  const Result<> written = write(*measurement, *options, *runtime, device);
  return written ? 0 : report(written.error());
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
