// The Compiler of the cuda backend.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "backend/backend.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/nvrtc_search.hpp"
#include "platform/logger.hpp"

namespace kernwright {

/// Compiles requests with an NVRTC that is found on the first call. identity() reads files only; the library is opened by the first
/// compile, or where its files do not tell its version. Thread-safe; a failure to find or open is not kept.
class NvrtcCompiler final : public Compiler {
 public:
  /// A limit of 0 or less is none. How many compiles run at once is not decided here: each takes 80 to 240 MB.
  NvrtcCompiler(NvrtcSearch search, double time_limit_seconds, Logger logger);

  [[nodiscard]] std::string_view family() const noexcept override { return "nvrtc"; }
  Result<CompilerIdentity> identity() override;
  Result<CompileOutput> compile(const BuildRequest& request) override;
  /// The PTX that compile() makes its binary of. Its errors are compile()'s.
  Result<std::string> ptx(const BuildRequest& request);
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
  enum class Product : std::uint8_t { cubin, ptx };
  Result<CompileOutput> produce(const BuildRequest& request, Product product);
  static nvrtcResult take(const NvrtcApi& api, nvrtcProgram program, Product product, std::vector<std::byte>& bytes);
  Result<Installation> locate();                                             // under mutex_
  Result<std::shared_ptr<const Nvrtc>> open_library(const NvrtcFile& file);  // under mutex_

  NvrtcSearch search_;
  double time_limit_seconds_;
  Logger logger_;
  std::mutex mutex_;
  std::optional<Installation> installation_;  // guarded by mutex_, as are the next three
  std::shared_ptr<const Nvrtc> library_;
  DynamicLibrary builtins_;
  bool ready_ = false;  // library and builtins are open and match the identity
};

}  // namespace kernwright
