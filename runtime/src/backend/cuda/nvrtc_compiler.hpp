// The Compiler of the cuda backend.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>

#include "backend/backend.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/nvrtc_search.hpp"
#include "platform/logger.hpp"

namespace kernwright {

/// Compiles requests with an NVRTC that is found on the first call. identity() reads files only; the library is opened by the first
/// compile, or where its files do not tell its version. Thread-safe; a failure to find or open is not kept.
class NvrtcCompiler final : public Compiler {
 public:
  /// A limit of 0 or less is none; as many compiles at once as the machine bears where that number is 0 or less.
  NvrtcCompiler(NvrtcSearch search, double time_limit_seconds, Logger logger, int compiles_at_once = 0);

  Result<CompilerIdentity> identity() override;
  Result<CompileOutput> compile(const BuildRequest& request) override;
  Result<ResourceUse> resources(const BuildRequest& request, std::span<const std::byte> binary, std::string_view log) override;

  /// What was found, for `doctor`.
  struct Installation {
    NvrtcFile file;
    NvrtcBuiltins builtins;
    CompilerIdentity identity;
  };
  Result<Installation> installation();
  /// Opens the library and its builtins, and checks that they are the ones of identity().
  Result<std::shared_ptr<const Nvrtc>> opened();

 private:
  Result<Installation> locate();                                             // under mutex_
  Result<std::shared_ptr<const Nvrtc>> open_library(const NvrtcFile& file);  // under mutex_
  std::counting_semaphore<>& slots();

  NvrtcSearch search_;
  double time_limit_seconds_;
  Logger logger_;
  int compiles_at_once_;
  std::mutex mutex_;
  std::optional<std::counting_semaphore<>> slots_;  // guarded by mutex_, as are the next four; made by the first compile
  std::optional<Installation> installation_;
  std::shared_ptr<const Nvrtc> library_;
  DynamicLibrary builtins_;
  bool ready_ = false;  // library and builtins are open and match the identity
};

}  // namespace kernwright
