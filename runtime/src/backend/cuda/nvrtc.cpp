#include "backend/cuda/nvrtc.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright {

Result<std::shared_ptr<const Nvrtc>> Nvrtc::open(const NvrtcFile& file) {
  auto library = DynamicLibrary::open(file.library.string(), DynamicLibrary::Lifetime::resident);
  if (!library) {
    return fail(ErrorCode::compiler_unavailable, fmt::format("NVRTC {} (found by {}) could not be opened; the loader says: {}",
                                                             file.library.string(), file.found_by, library.error().message));
  }
  auto nvrtc = std::make_shared<Nvrtc>();
  nvrtc->library_ = std::move(*library);
  NvrtcApi& api = nvrtc->api_;

  std::string missing;
  const auto required = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(nvrtc->library_.find(name));
    if (function == nullptr) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  };
  required(api.version, "nvrtcVersion");
  required(api.get_error_string, "nvrtcGetErrorString");
  required(api.get_num_supported_archs, "nvrtcGetNumSupportedArchs");
  required(api.get_supported_archs, "nvrtcGetSupportedArchs");
  required(api.create_program, "nvrtcCreateProgram");
  required(api.destroy_program, "nvrtcDestroyProgram");
  required(api.compile_program, "nvrtcCompileProgram");
  required(api.get_cubin_size, "nvrtcGetCUBINSize");
  required(api.get_cubin, "nvrtcGetCUBIN");
  required(api.get_ptx_size, "nvrtcGetPTXSize");
  required(api.get_ptx, "nvrtcGetPTX");
  required(api.get_program_log_size, "nvrtcGetProgramLogSize");
  required(api.get_program_log, "nvrtcGetProgramLog");
  if (!missing.empty()) {
    return fail(ErrorCode::compiler_unavailable, fmt::format("NVRTC {} does not export {}: it is too old or damaged; install CUDA {}'s",
                                                             file.library.string(), missing, NvrtcSearch::kMajor));
  }
  api.set_flow_callback = reinterpret_cast<decltype(api.set_flow_callback)>(nvrtc->library_.find("nvrtcSetFlowCallback"));

  int architectures = 0;
  nvrtcResult result = api.version(&nvrtc->major_, &nvrtc->minor_);
  if (result == NVRTC_SUCCESS) result = api.get_num_supported_archs(&architectures);
  if (result == NVRTC_SUCCESS && architectures > 0) {
    nvrtc->architectures_.resize(static_cast<std::size_t>(architectures));
    result = api.get_supported_archs(nvrtc->architectures_.data());
  }
  if (result != NVRTC_SUCCESS) {
    return fail(ErrorCode::compiler_unavailable,
                fmt::format("NVRTC {} does not tell its version and targets: {}", file.library.string(), api.get_error_string(result)));
  }
  std::sort(nvrtc->architectures_.begin(), nvrtc->architectures_.end());
  return nvrtc;
}

Result<DynamicLibrary> Nvrtc::pin_builtins(const std::filesystem::path& builtins) const {
  if (builtins.empty()) return DynamicLibrary{};
  auto pinned = DynamicLibrary::open(builtins.string(), DynamicLibrary::Lifetime::resident);
  if (!pinned) {
    return fail(ErrorCode::compiler_unavailable, fmt::format("NVRTC's builtins library {} could not be opened; the loader says: {}",
                                                             builtins.string(), pinned.error().message));
  }
  // NVRTC will ask by name, and the loader answers with the first library of that name in the process, which need not be ours.
  const auto name = builtins_name(major_, minor_);
  const DynamicLibrary answered = DynamicLibrary::already_loaded(name);
  std::error_code error;
  if (!answered || std::filesystem::equivalent(answered.path(), builtins, error)) return pinned;
  const auto ours = library_identity(builtins);
  const auto theirs = library_identity(answered.path());
  if (ours && theirs && *ours == *theirs) return pinned;
  return fail(
      ErrorCode::compiler_unavailable,
      fmt::format("this process has loaded {} already (another package's NVRTC), so that NVRTC would use it instead of its own {}. Name "
                  "the NVRTC beside the loaded one in KERNWRIGHT_NVRTC",
                  answered.path().string(), builtins.string()));
}

}  // namespace kernwright
