// What a hit costs: from the disk (the page cache is warm), with a compiler present and sealed, and from memory. Needs no GPU and compiles
// one small kernel for the interpreter.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "kernwright/runtime.hpp"
#include "key/key.hpp"
#include "measurement.hpp"
#include "ops/sparse_mla_options.hpp"
#include "prepare/candidates.hpp"
#include "prepare/runtime_state.hpp"
#include "sparse_mla/union_build_params.cuh"

namespace {

using namespace kernwright;
using namespace kernwright::bench;
namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kBinaryBytes = 100'000;
constexpr int kMemoryHitsPerSample = 1000;

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

/// Stands for an NVRTC whose identity is known: finding it is no part of a hit.
class KnownCompiler final : public Compiler {
 public:
  static CompilerIdentity known() { return {"nvrtc", "13.0", {{"libnvrtc", "0123"}, {"libnvrtc-builtins", "4567"}}}; }
  [[nodiscard]] std::string_view family() const noexcept override { return "nvrtc"; }
  Result<CompilerIdentity> identity() override { return known(); }
  Result<CompileOutput> compile(const BuildRequest&) override {
    return fail(ErrorCode::internal, "a hit was measured, and this is a miss");
  }
  Result<ResourceUse> resources(const BuildRequest&, std::span<const std::byte>, std::string_view) override { return ResourceUse{}; }
};

/// The request of the prefill kernel for 8 heads in groups of 8, sources and all.
Result<BuildRequest> prefill_request(Runtime::State& state) {
  SparseMlaPrefillOptions op;
  op.heads = 8;
  auto specialised = specialise(state, kPrefillTemplate, prefill_specialisation(op, 8));
  if (!specialised) return fail(std::move(specialised.error()));
  auto target = Target::parse("sm_90a");
  if (!target) return fail(std::move(target.error()));
  const auto tiles = specialised->definition->manifest.candidates(std::nullopt, *target);
  return kernel_request(*specialised->definition, specialised->specialisation, tiles.front(), *target);
}

/// Each sample is a runtime of its own, so that nothing is in memory.
Result<std::vector<double>> disk_hits(const RuntimeOptions& options, const BuildRequest& request, int repetitions) {
  std::vector<double> samples;
  KnownCompiler compiler;
  for (int i = 0; i < repetitions; ++i) {
    auto runtime = Runtime::create(options);
    if (!runtime) return fail(std::move(runtime.error()));
    const auto start = SteadyClock::now();
    auto obtained = runtime->state().artifacts->get_or_build(request, compiler);
    samples.push_back(microseconds_since(start));
    if (!obtained) return fail(std::move(obtained.error()));
    if (obtained->source != CacheSource::store || obtained->artifact->binary.size() != kBinaryBytes) {
      return fail(ErrorCode::internal, "the entry that was published did not come back");
    }
  }
  return samples;
}

/// Nanoseconds a prepare of what is prepared already.
Result<std::vector<double>> memory_hits(const RuntimeOptions& options, int repetitions) {
  auto runtime = Runtime::create(options);
  if (!runtime) return fail(std::move(runtime.error()));
  PrepareRequest request;
  request.template_name = kUnionBuildTemplate;
  request.specialisation.set("group_size", 8);
  request.device = DeviceId::host();
  request.params_bytes = sizeof(kw::sparse_mla::UnionBuildParams);
  if (auto kernel = runtime->prepare(request); !kernel) return fail(std::move(kernel.error()));
  std::vector<double> samples;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = SteadyClock::now();
    for (int hit = 0; hit < kMemoryHitsPerSample; ++hit) {
      if (auto kernel = runtime->prepare(request); !kernel) return fail(std::move(kernel.error()));
    }
    samples.push_back(microseconds_since(start) * 1000 / kMemoryHitsPerSample);
  }
  return samples;
}

Result<Measurement> measure(const fs::path& folder, int repetitions) {
  RuntimeOptions options;
  options.store = folder;
  options.read_only_stores.emplace();
  options.sealed = false;
  auto runtime = Runtime::create(options);
  if (!runtime) return fail(std::move(runtime.error()));
  auto request = prefill_request(runtime->state());
  if (!request) return fail(std::move(request.error()));
  Artifact artifact;
  artifact.request = *request;
  artifact.compiler = KnownCompiler::known();
  artifact.key = entry_key(artifact.request, artifact.compiler);
  artifact.plans.resize(1);
  for (std::size_t i = 0; i < kBinaryBytes; ++i) artifact.binary.push_back(static_cast<std::byte>(i * 31 % 251));
  runtime->state().stores->publish(artifact);

  Measurement measurement;
  measurement.benchmark = "cache_cost";
  measurement.command = fmt::format("build/release/benchmarks/cache_cost --target host --repetitions {}", repetitions);
  const auto add = [&](const std::string& name, const std::vector<double>& samples, const std::string& unit) {
    const Spread s = spread(samples);
    measurement.figures[name] = {
        {"median_" + unit, s.median}, {"min_" + unit, s.smallest}, {"max_" + unit, s.largest}, {"p95_" + unit, s.p95}};
    measurement.samples[name + "_" + unit] = samples;
  };
  auto unsealed = disk_hits(options, *request, repetitions);
  if (!unsealed) return fail(std::move(unsealed.error()));
  add("disk_hit", *unsealed, "us");
  options.sealed = true;
  auto sealed = disk_hits(options, *request, repetitions);
  if (!sealed) return fail(std::move(sealed.error()));
  add("disk_hit_sealed", *sealed, "us");
  options.sealed = false;
  auto memory = memory_hits(options, repetitions);
  if (!memory) return fail(std::move(memory.error()));
  add("memory_hit", *memory, "ns");
  std::size_t source_bytes = 0;
  for (const SourceFile& source : request->sources) source_bytes += source.content.size();
  measurement.figures["shape"] = {{"binary_bytes", kBinaryBytes},
                                  {"source_bytes", static_cast<double>(source_bytes)},
                                  {"memory_hits_per_sample", kMemoryHitsPerSample},
                                  {"repetitions", repetitions}};
  return measurement;
}

int run(int argc, char** argv) {
  const Result<Options> options = parse_options(argc, argv, "cache_cost: a hit from the disk and from memory (always on host)");
  if (!options) return report(options.error());
  std::string name = (fs::temp_directory_path() / "kernwright-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return report({ErrorCode::io, "no temporary folder could be made", {}});
  const Result<Measurement> measurement = measure(name, options->repetitions > 0 ? options->repetitions : 200);
  std::error_code ignored;
  fs::remove_all(name, ignored);
  if (!measurement) return report(measurement.error());
  const Result<Runtime> runtime = Runtime::create();
  if (!runtime) return report(runtime.error());
  const Result<> written = write(*measurement, *options, *runtime, DeviceId::host());
  return written ? 0 : report(written.error());
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
