#include "doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

// What a run would open is asked of the library's own parts, so that doctor and run cannot disagree.
#include "backend/backends.hpp"
#include "backend/cuda/diagnosis.hpp"
#include "doctor_report.hpp"
#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"
#include "store/compiler_record.hpp"

namespace kernwright::tool {
namespace {

void diagnose_host(const RuntimeOptions& options, const Runtime& runtime, DoctorReport& report) {
  const std::shared_ptr<Backend> backend = make_host_backend(options, Logger());
  if (const Result<CompilerIdentity> compiler = backend->compiler().identity(); compiler) {
    report.host_compiler = compiler->version.substr(0, compiler->version.find('\n'));
  } else {
    report.host_problem = compiler.error().message;
  }
  if (const Result<DeviceInfo> device = runtime.device(DeviceId::host()); device) {
    report.host = *device;
  } else if (report.host_problem.empty()) {
    report.host_problem = device.error().message;
  }
  report.host_works = report.host_problem.empty();
}

void diagnose_cuda_side(const RuntimeOptions& options, const Runtime& runtime, DoctorReport& report) {
  const CudaDiagnosis cuda = diagnose_cuda(options);
  report.driver_path = cuda.driver_path.string();
  report.driver_version = cuda.driver_version;
  report.driver_problem = cuda.driver_problem;
  report.nvrtc_path = cuda.nvrtc_path.string();
  report.nvrtc_found_by = cuda.nvrtc_found_by;
  report.nvrtc_version = cuda.nvrtc_version;
  report.nvrtc_problem = cuda.nvrtc_problem;
  report.nvrtc_targets = cuda.supported_targets;
  report.builtins_path = cuda.builtins_path.string();
  report.builtins_problem = cuda.builtins_ok ? std::string() : cuda.builtins_problem;
  report.mismatch = cuda.mismatch;
  Result<std::vector<DeviceInfo>> devices = runtime.cuda_devices();
  if (devices) {
    report.devices = std::move(*devices);
  } else if (report.driver_problem.empty()) {
    report.devices_problem = devices.error().message;
  }
  report.cuda_works = report.driver_problem.empty() && !report.devices.empty() && report.nvrtc_problem.empty() &&
                      report.builtins_problem.empty() && report.mismatch.empty();
}

/// The compilers that are here.
std::vector<CompilerIdentity> present_compilers(const Runtime& runtime) {
  std::vector<CompilerIdentity> present;
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::host}) {
    if (auto identity = runtime.state().backend(kind)->compiler().identity()) present.push_back(std::move(*identity));
  }
  return present;
}

void diagnose_stores(const Runtime& runtime, const std::vector<CompilerIdentity>& present, DoctorReport& report) {
  const Runtime::State& state = runtime.state();
  for (const auto& store : state.stores->all()) report.stores.push_back(diagnose_store(*store, *state.files, present));
  report.sealed = runtime.sealed();
  CompilerChoice choice(state.stores, true, state.options.compiler);
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::host}) {
    Compiler& compiler = state.backend(kind)->compiler();
    SealedStart& start = report.sealed_starts.emplace_back();
    start.family = compiler.family();
    const auto chosen = choice.choose(compiler);
    if (!chosen) {
      start.problem = chosen.error().message;
    } else {
      std::ranges::transform(chosen->identities, std::back_inserter(start.compilers), compiler_label);
    }
  }
}

/// A sealed run needs no compiler, but a store that names one.
void judge_sealed(DoctorReport& report) {
  if (!report.sealed) return;
  const auto listed = [&](std::string_view family) {
    return std::ranges::any_of(report.sealed_starts,
                               [&](const SealedStart& each) { return each.family == family && !each.compilers.empty(); });
  };
  report.cuda_works = report.driver_problem.empty() && !report.devices.empty() && listed("nvrtc");
  report.host_works = listed("host");
}

void diagnose_tables(const Runtime& runtime, DoctorReport& report) {
  std::vector<DeviceInfo> devices = report.devices;
  if (report.host_problem.empty()) devices.push_back(report.host);
  report.tuning = diagnose_tuning(runtime.state(), devices);
}

/// A run asks the tables before anything else, unless it names its tile.
void judge_tables(DoctorReport& report) {
  if (report.tuning.failure.empty()) return;
  report.cuda_works = report.host_works = false;
}

/// Entries that no run hits, since the compiler that is here made none of them.
void list_unhit_entries(const DoctorReport& report, const std::vector<CompilerIdentity>& present, std::vector<Problem>& problems) {
  if (report.sealed) return;
  for (const CompilerIdentity& compiler : present) {
    std::size_t own = 0;
    std::size_t others = 0;
    for (const StoreDiagnosis& store : report.stores) {
      for (const auto& each : store.by_compiler) {
        if (each.compiler.name == compiler.name) (each.present ? own : others) += each.entries;
      }
    }
    if (own > 0 || others == 0) continue;
    problems.push_back(
        {fmt::format("none of the stores' {} entries of the kind {} was made by {}, which is the compiler that is here: none is a hit, and "
                     "every kernel is compiled anew",
                     others, compiler.name, compiler_label(compiler)),
         "Warm a store with this compiler, use the one that made the entries (kernwright cache ls lists it), or seal the process "
         "(KERNWRIGHT_SEALED=1): it then takes the stores' own compiler and compiles nothing."});
  }
}

/// Sealed, a run works where the stores name a compiler; KERNWRIGHT_COMPILER may pick one that none lists.
void list_sealed_problems(const DoctorReport& report, std::vector<Problem>& problems) {
  if (!report.sealed) return;
  const bool none = std::ranges::all_of(report.sealed_starts, [](const SealedStart& each) { return each.compilers.empty(); });
  if (none && !report.sealed_starts.empty()) {
    problems.push_back({report.sealed_starts.front().problem,
                        "Name a warm store in KERNWRIGHT_CACHE_STORES or KERNWRIGHT_CACHE_DIR, or unset KERNWRIGHT_SEALED."});
  }
}

void list_problems(const std::vector<CompilerIdentity>& present, DoctorReport& report) {
  const bool none_works = !report.cuda_works && !report.host_works;
  const auto add = [&](const std::string& what, std::string remedy, bool stops) {
    if (!what.empty()) report.problems.push_back({{what, std::move(remedy)}, stops && none_works});
  };
  add(report.driver_problem,
      "Install NVIDIA's driver, or name its libcuda.so.1 in KERNWRIGHT_CUDA_DRIVER; without a GPU use --target host.", true);
  add(report.devices_problem, "Check that nvidia-smi lists the device and that this user may open /dev/nvidia*; or use --target host.",
      true);
  if (report.driver_problem.empty() && report.devices_problem.empty() && report.devices.empty()) {
    add("the driver works but finds no device", "Check CUDA_VISIBLE_DEVICES and nvidia-smi; or use --target host.", true);
  }
  const auto add_compiler = [&](const std::string& what, std::string remedy) {
    if (!report.sealed) add(what, std::move(remedy), true);
  };
  add_compiler(report.nvrtc_problem, "Install a CUDA 13 toolkit or pip's nvidia-cuda-nvrtc, or name libnvrtc.so in KERNWRIGHT_NVRTC.");
  add_compiler(report.builtins_problem, "Put libnvrtc-builtins of the same version beside libnvrtc: packages install both.");
  add_compiler(report.mismatch, "Update the driver, or use an NVRTC that is not newer than it.");
  add_compiler(report.host_problem, "Install g++ or clang++, or name one in CXX; only --target host needs it.");
  add(report.tuning.failure, "Mend the tuning table or take it out of its folder, or unset KERNWRIGHT_TUNING_DIR.", true);
  std::vector<Problem> others = report.tuning.problems;
  for (const StoreDiagnosis& store : report.stores) std::ranges::copy(store.problems, std::back_inserter(others));
  if (std::ranges::all_of(report.stores, &StoreDiagnosis::read_only)) {
    others.push_back(
        {"there is no folder for a store", "Set KERNWRIGHT_CACHE_DIR, or HOME; runs work without it, compiling anew each time."});
  }
  list_unhit_entries(report, present, others);
  list_sealed_problems(report, others);
  for (Problem& each : others) add(each.what, std::move(each.remedy), false);
}

}  // namespace

ExitCode doctor(const OutputOptions& output) {
  const RuntimeOptions asked = runtime_options({output.json, true});
  const Result<RuntimeOptions> options = resolve_options(asked);
  if (!options) return report_error(options.error());
  Result<Runtime> runtime = Runtime::create(asked);
  if (!runtime) return report_error(runtime.error());
  DoctorReport report;
  report.version = KERNWRIGHT_VERSION;
  diagnose_cuda_side(*options, *runtime, report);
  diagnose_host(*options, *runtime, report);
  const std::vector<CompilerIdentity> present = present_compilers(*runtime);
  diagnose_stores(*runtime, present, report);
  judge_sealed(report);
  diagnose_tables(*runtime, report);
  judge_tables(report);
  list_problems(present, report);
  return finish(output.json ? json_of(report) : text_of(report),
                report.cuda_works || report.host_works ? ExitCode::done : ExitCode::unable);
}

}  // namespace kernwright::tool
