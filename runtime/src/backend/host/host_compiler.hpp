// Compiles a template for the interpreter: the system's C++ compiler, one shared object a specialisation.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/host/compiler_search.hpp"
#include "kernwright/runtime.hpp"
#include "platform/logger.hpp"

namespace kernwright::host {

class HostCompiler final : public Compiler {
 public:
  HostCompiler(const HostOptions& options, Logger logger);

  [[nodiscard]] std::string_view family() const noexcept override { return "host"; }
  Result<CompilerIdentity> identity() override;
  Result<CompileOutput> compile(const BuildRequest& request) override;
  /// Registers and stack are 0: what a C++ compiler uses of either says nothing about a GPU. Static shared memory is the size of the
  /// object's thread-local variables in mode fibers, and 0 in the other modes, whose objects do not tell it from other statics.
  Result<ResourceUse> resources(const BuildRequest& request, std::span<const std::byte> binary, std::string_view log) override;

 private:
  struct Known {
    FoundCompiler compiler;
    std::vector<std::string> flags;
    CompilerIdentity identity;
  };
  Result<const Known*> known();
  [[nodiscard]] std::vector<std::string> flags(const FoundCompiler& compiler) const;

  const HostMode mode_;
  const std::optional<std::string> setting_;
  const double time_limit_seconds_;
  const Logger logger_;
  std::mutex mutex_;
  std::optional<Known> known_;  // set once, under mutex_, and then never changed
};

}  // namespace kernwright::host
