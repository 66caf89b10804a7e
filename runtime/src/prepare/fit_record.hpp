// The fit of one prepare: which tile to begin with, and what to write down afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "prepare/candidates.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

class FitRecord {
 public:
  /// What a fit is keyed by, but for the compiler.
  struct Subject {
    std::shared_ptr<const TemplateDefinition> definition;
    Specialisation specialisation;
    DeviceInfo device;
    Tile asked;
  };
  /// Without a store nothing is keyed, read or written.
  static Result<FitRecord> open(Runtime::State& state, Compiler& compiler, Subject subject);

  /// The recorded fit whose tile is still offered behind the tile asked for.
  std::optional<Fit> read(const std::vector<Candidate>& candidates);
  /// `compiler`: the one that made the kernel which fitted.
  void write(const Tile& fitted, const std::string& reason, const CompilerIdentity& compiler);

 private:
  FitRecord(Runtime::State& state, Subject subject) : state_(&state), subject_(std::move(subject)) {}
  [[nodiscard]] FitKey key(const CompilerIdentity& compiler) const;
  /// What the record of this prepare holds beside the tile that fitted and the reason.
  [[nodiscard]] Fit expected(const CompilerIdentity& compiler) const;

  Runtime::State* state_;
  Subject subject_;
  std::optional<BuildRequest> request_;  ///< Empty without a store.
  std::vector<CompilerIdentity> compilers_;
};

}  // namespace kernwright
