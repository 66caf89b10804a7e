// What a sealed process pays for each kernel of a launch list before its first launch is through: entry read and checked, loaded, fitted,
// launched once on an empty problem, waited for. sealed_start LIST [options]; the stores are the environment's (KERNWRIGHT_CACHE_STORES,
// KERNWRIGHT_CACHE_DIR). Exit code 1 where something was compiled or came from elsewhere than a store.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernwright/runtime.hpp"
#include "measurement.hpp"

namespace {

using namespace kernwright;
using namespace kernwright::bench;
using SteadyClock = std::chrono::steady_clock;

double milliseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count();
}

Result<Runtime> sealed_runtime() {
  RuntimeOptions options;
  options.sealed = true;
  return Runtime::create(std::move(options));
}

/// What each launch of the list prepares on `device`, with the size of its parameter struct, from a runtime of its own: what it reads must
/// not be in the memory of the one that is measured.
Result<std::vector<PrepareRequest>> requests_of(const std::filesystem::path& list, DeviceId device) {
  const Result<Runtime> runtime = sealed_runtime();
  if (!runtime) return fail(Error(runtime.error()));
  const Result<DeviceInfo> info = runtime->device(device);
  if (!info) return fail(Error(info.error()));
  const std::vector<Target> targets{info->target};
  auto launches = runtime->read_launch_list(list, targets);
  if (!launches) return fail(std::move(launches.error()));
  std::vector<PrepareRequest> requests;
  for (WarmRequest& launch : *launches) {
    launch.device = device;
    launch.fall_backs = false;
    auto items = runtime->warm(launch);
    if (!items) return fail(std::move(items.error()));
    const auto fits = std::ranges::find(*items, WarmOutcome::hit, &WarmedItem::outcome);
    if (fits == items->end()) {
      return fail(ErrorCode::sealed_miss, fmt::format("{} {}: {}", launch.template_name, launch.specialisation.text(),
                                                      items->empty() ? "no tile is legal" : items->front().reason));
    }
    requests.push_back({launch.template_name, launch.specialisation, device, launch.tile, static_cast<std::size_t>(fits->plan.params_bytes),
                        std::nullopt});
  }
  if (requests.empty()) return fail(ErrorCode::invalid_argument, fmt::format("{} has no launch for this device", list.string()));
  return requests;
}

/// The launches' milliseconds, in the list's order. A struct of zeros is every template's empty problem.
Result<std::vector<double>> first_launches(const Runtime& runtime, std::span<const PrepareRequest> requests, DeviceId device) {
  // An allocation and a stream make the context, which any engine has long before.
  const auto buffer = runtime.allocate(device, Bytes{1 << 20});
  if (!buffer) return fail(Error(buffer.error()));
  const auto stream = runtime.create_stream(device);
  if (!stream) return fail(Error(stream.error()));
  std::vector<double> samples;
  for (const PrepareRequest& request : requests) {
    const std::vector<std::byte> empty(request.params_bytes);
    const auto start = SteadyClock::now();
    auto kernel = runtime.prepare(request);
    if (!kernel) return fail(std::move(kernel.error()));
    if (auto launched = kernel->launch_bytes(Grid{1, 1, 1}, empty.data(), empty.size(), stream->handle()); !launched) {
      return fail(std::move(launched.error()));
    }
    if (auto finished = stream->synchronize(); !finished) return fail(std::move(finished.error()));
    samples.push_back(milliseconds_since(start));
    if (kernel->report().cache != CacheSource::store) {
      return fail(ErrorCode::internal, fmt::format("{} came from: {}", request.template_name, to_string(kernel->report().cache)));
    }
  }
  return samples;
}

int run(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]).starts_with("--")) {
    return report({ErrorCode::invalid_argument, "sealed_start LIST [--target cuda|host] [--json FILE]: a launch list is needed", {}});
  }
  const std::string list = argv[1];
  const Result<Options> options =
      parse_options(argc - 1, argv + 1, "sealed_start LIST: the first launch of each kernel of a launch list, sealed");
  if (!options) return report(options.error());
  const DeviceId device = options->target == "cuda" ? DeviceId::cuda(0) : DeviceId::host();
  const auto requests = requests_of(list, device);
  if (!requests) return report(requests.error());
  const Result<Runtime> runtime = sealed_runtime();
  if (!runtime) return report(runtime.error());
  const auto samples = first_launches(*runtime, *requests, device);
  if (!samples) return report(samples.error());

  const Spread s = spread(*samples);
  const Counters counters = runtime->counters();
  Measurement measurement;
  measurement.benchmark = "sealed_start";
  measurement.command = fmt::format("sealed_start {} --target {}", std::filesystem::path(list).filename().string(), options->target);
  measurement.figures["first_launch"] = {
      {"median_ms", s.median}, {"min_ms", s.smallest}, {"max_ms", s.largest}, {"p95_ms", s.p95}, {"very_first_ms", samples->front()}};
  measurement.figures["counters"] = {{"launches", static_cast<double>(samples->size())},
                                     {"compiles", static_cast<double>(counters.compiles)},
                                     {"store_hits", static_cast<double>(counters.store_hits)}};
  measurement.samples["first_launch_ms"] = *samples;
  if (const auto written = write(measurement, *options, *runtime, device); !written) return report(written.error());
  return counters.compiles == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
