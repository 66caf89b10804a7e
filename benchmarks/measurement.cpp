#include "measurement.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/cuda/diagnosis.hpp"
#include "prepare/options.hpp"

namespace kernwright::bench {
namespace {

using Json = nlohmann::ordered_json;

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

std::string cpu_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

Json device_json(const DeviceInfo& device) {
  return {{"name", device.name},
          {"target", device.target.name()},
          {"multiprocessors", device.multiprocessors},
          {"shared_memory_per_block", device.shared_memory_per_block.count}};
}

}  // namespace

Result<Options> parse_options(int argc, char** argv, const std::string& what) {
  Options options;
  const std::string legal = "legal are --target cuda|host, --repetitions N (1 to 100000), --json FILE, --help";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help") {
      fmt::print("{}\n{}\n", what, legal);
      return fail(ErrorCode::not_found, "");
    }
    if (i + 1 >= argc) return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not known or lacks its value; {}", word, legal));
    const std::string value = argv[++i];
    if (word == "--target" && (value == "cuda" || value == "host")) {
      options.target = value;
    } else if (word == "--json") {
      options.output = value;
    } else if (word == "--repetitions") {
      const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), options.repetitions);
      if (problem != std::errc() || end != value.data() + value.size() || options.repetitions < 1 || options.repetitions > 100'000) {
        return fail(ErrorCode::invalid_argument, fmt::format("--repetitions {}; {}", value, legal));
      }
    } else {
      return fail(ErrorCode::invalid_argument, fmt::format("{} {}; {}", word, value, legal));
    }
  }
  if (options.target.empty()) {
    const Result<Runtime> runtime = Runtime::create();
    if (!runtime) return fail(Error(runtime.error()));
    const auto devices = runtime->cuda_devices();
    options.target = devices && !devices->empty() ? "cuda" : "host";
  }
  return options;
}

Spread spread(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const auto at = [&](double share) {
    return samples[static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size()))) - 1];
  };
  const std::size_t middle = samples.size() / 2;
  const double median = samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, samples.front(), samples.back(), at(0.95)};
}

Result<> write(const Measurement& measurement, const Options& options, const Runtime& runtime, DeviceId device) {
  const Result<DeviceInfo> info = runtime.device(device);
  if (!info) return fail(Error(info.error()));
  const Result<RuntimeOptions> resolved = resolve_options({});
  if (!resolved) return fail(Error(resolved.error()));
  const CudaDiagnosis cuda = diagnose_cuda(*resolved);
  Json json{{"benchmark", measurement.benchmark},
            {"command", measurement.command},
            {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
            {"version", KERNWRIGHT_VERSION},
            {"compiler", kCompiler},
            {"cpu", cpu_name()},
            {"cores", std::thread::hardware_concurrency()},
            {"device", device_json(*info)},
            {"driver", cuda.driver_version.empty() ? Json(nullptr) : Json(cuda.driver_version)},
            {"nvrtc", cuda.nvrtc_version.empty() ? Json(nullptr) : Json(cuda.nvrtc_version)},
            {"figures", measurement.figures},
            {"samples", measurement.samples}};
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::FILE* const file = options.output.empty() ? stdout : std::fopen(options.output.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  if (file != nullptr && file != stdout) written = std::fclose(file) == 0 && written;
  if (written) return {};
  return fail(ErrorCode::io, fmt::format("{} could not be written", options.output.empty() ? "stdout" : options.output));
}

int report(const Error& error) {
  if (error.code == ErrorCode::not_found && error.message.empty()) return 0;
  fmt::print(stderr, "error: {}\n", error.text());
  return error.code == ErrorCode::invalid_argument ? 2 : 3;
}

}  // namespace kernwright::bench
