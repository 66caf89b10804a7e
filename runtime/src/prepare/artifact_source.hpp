// Where an artifact comes from: this process's memory, the stores, the compiler.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "artifact.hpp"
#include "backend/backend.hpp"
#include "platform/logger.hpp"
#include "prepare/compile_budget.hpp"
#include "prepare/compiler_choice.hpp"
#include "prepare/counting.hpp"
#include "prepare/store_stack.hpp"

namespace kernwright {

struct Obtained {
  ArtifactPointer artifact;
  CacheSource source = CacheSource::built;
  double compile_ms = 0;  ///< 0 unless this call compiled.
};

/// Thread-safe. One build a request at a time in this process: others wait for its result.
class ArtifactSource {
 public:
  struct Settings {
    std::shared_ptr<StoreStack> stores;
    std::shared_ptr<CompilerChoice> compilers;
    bool sealed = false;
    std::shared_ptr<CompileBudget> budget;
  };
  ArtifactSource(Settings settings, std::shared_ptr<LiveCounters> counters, Logger logger);

  /// `asked`: the tile for which plans are obtained, if one was asked for; the error of a miss names it in the command that warms it.
  Result<Obtained> get_or_build(const BuildRequest& request, Compiler& compiler, const std::optional<Tile>& asked = std::nullopt);
  /// For an artifact that verified but that the driver refused to load: compiles anew and replaces it everywhere, unless another thread
  /// has done so already; then that one's.
  Result<Obtained> rebuild(const BuildRequest& request, Compiler& compiler, const ArtifactPointer& refused);

 private:
  using Outcome = Result<ArtifactPointer>;
  /// `refused`: not to be answered again; null: anything goes.
  Result<Obtained> obtain(const BuildRequest& request, Compiler& compiler, const std::optional<Tile>& asked,
                          const ArtifactPointer& refused);
  Result<Obtained> find_or_build(const EntryKey& key, const BuildRequest& request, Compiler& compiler, const CompilerChoice::Choice& choice,
                                 const std::optional<Tile>& asked, bool may_hit);
  Result<Obtained> build(const EntryKey& key, const BuildRequest& request, Compiler& compiler, const CompilerIdentity& identity,
                         bool may_hit);
  Outcome compile(const EntryKey& key, const BuildRequest& request, Compiler& compiler, const CompilerIdentity& identity);

  std::shared_ptr<StoreStack> stores_;
  std::shared_ptr<CompilerChoice> compilers_;
  const bool sealed_;
  std::shared_ptr<CompileBudget> budget_;
  std::shared_ptr<LiveCounters> counters_;
  Logger logger_;

  std::mutex mutex_;
  std::map<EntryKey, ArtifactPointer> built_;
  std::map<EntryKey, std::shared_future<Outcome>> building_;
};

}  // namespace kernwright
