#include "doctor.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

// What a run would open is asked of the library's own parts, so that doctor and run cannot disagree.
#include "backend/backends.hpp"
#include "backend/cuda/diagnosis.hpp"
#include "prepare/options.hpp"
#include "reports.hpp"
#include "store/store.hpp"

namespace kernwright::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLittleSpace = std::uint64_t{64} << 20;  // A store of all default kernels takes a few MiB.

/// The folder itself, or the nearest one above it that exists: where it would be made.
fs::path existing_part(const fs::path& folder) {
  std::error_code ignored;
  fs::path part = fs::absolute(folder, ignored);
  while (!fs::exists(fs::status(part, ignored)) && part.has_parent_path() && part != part.parent_path()) part = part.parent_path();
  return part;
}

StoreDiagnosis diagnose_store(const fs::path& folder) {
  StoreDiagnosis store;
  store.folder = folder.string();
  if (folder.empty()) return store;
  const fs::path part = existing_part(folder);
  std::error_code ignored;
  store.exists = fs::exists(folder, ignored);
  struct stat status {};
  if (::stat(part.c_str(), &status) != 0) {
    store.problem = fmt::format("{}: {}", part.string(), std::generic_category().message(errno));
    return store;
  }
  store.owner = status.st_uid;
  store.own = status.st_uid == ::geteuid();
  if (!S_ISDIR(status.st_mode)) {
    store.problem = fmt::format("{} is not a folder", part.string());
    return store;
  }
  store.writable = ::access(part.c_str(), W_OK | X_OK) == 0;
  struct statvfs space {};
  if (::statvfs(part.c_str(), &space) == 0) store.free = {space.f_bavail * space.f_frsize};
  if (!store.writable) {
    store.problem = fmt::format("{} cannot be written to: {}", part.string(), std::generic_category().message(errno));
  } else if (store.exists && !store.own) {
    store.problem = fmt::format("{} belongs to user {}, not to this one ({})", folder.string(), store.owner, ::geteuid());
  } else if (store.free.count < kLittleSpace) {
    store.problem = fmt::format("{} has only {} bytes free", part.string(), store.free.count);
  }
  return store;
}

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

void list_problems(DoctorReport& report) {
  const bool none_works = !report.cuda_works && !report.host_works;
  const auto add = [&](const std::string& what, std::string remedy, bool stops) {
    if (!what.empty()) report.problems.push_back({what, std::move(remedy), stops && none_works});
  };
  add(report.driver_problem,
      "Install NVIDIA's driver, or name its libcuda.so.1 in KERNWRIGHT_CUDA_DRIVER; without a GPU use --target host.", true);
  add(report.devices_problem, "Check that nvidia-smi lists the device and that this user may open /dev/nvidia*; or use --target host.",
      true);
  if (report.driver_problem.empty() && report.devices_problem.empty() && report.devices.empty()) {
    add("the driver works but finds no device", "Check CUDA_VISIBLE_DEVICES and nvidia-smi; or use --target host.", true);
  }
  add(report.nvrtc_problem, "Install a CUDA 13 toolkit or pip's nvidia-cuda-nvrtc, or name libnvrtc.so in KERNWRIGHT_NVRTC.", true);
  add(report.builtins_problem, "Put libnvrtc-builtins of the same version beside libnvrtc: packages install both.", true);
  add(report.mismatch, "Update the driver, or use an NVRTC that is not newer than it.", true);
  add(report.host_problem, "Install g++ or clang++, or name one in CXX; only --target host needs it.", true);
  add(report.store.problem,
      "Give a folder of this user's on a disk with space in KERNWRIGHT_CACHE_DIR; runs work without it, compiling anew each time.", false);
  if (report.store.folder.empty()) {
    add("there is no folder for a store", "Set KERNWRIGHT_CACHE_DIR, or HOME; runs work without it, compiling anew each time.", false);
  }
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
  report.store = diagnose_store(runtime->store_folder());
  list_problems(report);
  return finish(output.json ? json_of(report) : text_of(report),
                report.cuda_works || report.host_works ? ExitCode::done : ExitCode::unable);
}

}  // namespace kernwright::tool
