#include "backend/cuda/diagnosis.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "backend/cuda/driver.hpp"
#include "backend/cuda/nvrtc_compiler.hpp"

namespace kernwright {

namespace {

// Warp functions and atomics are declared in the builtins library.
constexpr const char* kBuiltinsKernel = R"(extern "C" __global__ void kernwright_doctor(int* sum, int value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  atomicAdd(sum, value);
}
)";

void diagnose_builtins(NvrtcCompiler& compiler, CudaDiagnosis& diagnosis) {
  // Any target will do; the oldest listed from 8.0 on costs least.
  BuildRequest request;
  request.template_name = "doctor";
  request.entry = "kernwright_doctor";
  request.sources = {{"doctor.cu", kBuiltinsKernel}};
  for (const std::string& name : diagnosis.supported_targets) {
    const auto target = Target::parse(name);
    if (!target) continue;
    request.target = *target;
    break;
  }
  if (const auto output = compiler.compile(request)) {
    diagnosis.builtins_ok = true;
  } else {
    diagnosis.builtins_problem = output.error().text();
  }
}

void diagnose_nvrtc(const RuntimeOptions& options, CudaDiagnosis& diagnosis) {
  NvrtcCompiler compiler(NvrtcSearch::from_process(options), options.compile_time_limit_seconds, Logger{});
  const auto found = compiler.installation();
  if (!found) {
    diagnosis.nvrtc_problem = found.error().text();
    return;
  }
  diagnosis.nvrtc_path = found->file.library;
  diagnosis.nvrtc_found_by = found->file.found_by;
  diagnosis.nvrtc_version = found->identity.version;
  diagnosis.nvrtc_identity = found->identity.components;
  diagnosis.builtins_path = found->builtins.library;
  const auto nvrtc = compiler.opened();
  if (!nvrtc) {
    diagnosis.nvrtc_problem = nvrtc.error().text();
    return;
  }
  for (const int capability : (*nvrtc)->architectures()) diagnosis.supported_targets.push_back(fmt::format("sm_{}", capability));
  diagnose_builtins(compiler, diagnosis);
}

}  // namespace

CudaDiagnosis diagnose_cuda(const RuntimeOptions& options) {
  CudaDiagnosis diagnosis;
  int driver_major = 0;
  if (const auto driver = Driver::open(options.cuda_driver)) {
    diagnosis.driver_path = (*driver)->path();
    diagnosis.driver_version = cuda_version_text((*driver)->version());
    driver_major = (*driver)->version() / 1000;
  } else {
    diagnosis.driver_problem = driver.error().text();
  }
  diagnose_nvrtc(options, diagnosis);
  if (driver_major != 0 && diagnosis.nvrtc_problem.empty()) {
    int nvrtc_major = 0;
    const std::string& version = diagnosis.nvrtc_version;
    std::from_chars(version.data(), version.data() + version.size(), nvrtc_major);
    if (nvrtc_major > driver_major) {
      diagnosis.mismatch = fmt::format(
          "the driver supports CUDA {}, older than NVRTC {}: it will refuse what NVRTC compiles. Update the driver, "
          "or name an NVRTC of its version in KERNWRIGHT_NVRTC",
          diagnosis.driver_version, diagnosis.nvrtc_version);
    }
  }
  return diagnosis;
}

std::string cuda_pci_bus(const RuntimeOptions& options, int ordinal) {
  const auto driver = Driver::open(options.cuda_driver);
  if (!driver) return {};
  const DriverApi& api = (*driver)->api();
  CUdevice device = 0;
  std::array<char, 32> address{};
  if (api.device_get(&device, ordinal) != CUDA_SUCCESS ||
      api.device_get_pci_bus_id(address.data(), static_cast<int>(address.size()) - 1, device) != CUDA_SUCCESS) {
    return {};
  }
  return address.data();
}

}  // namespace kernwright
