// Where an artifact comes from: this process's memory, the store, the compiler.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "artifact.hpp"
#include "backend/backend.hpp"
#include "platform/logger.hpp"
#include "prepare/counting.hpp"
#include "store/store.hpp"

namespace kernwright {

struct Obtained {
  ArtifactPointer artifact;
  CacheSource source = CacheSource::built;
  double compile_ms = 0;  ///< 0 unless this call compiled.
};

/// Thread-safe. One build a request at a time in this process: others wait for its result.
class ArtifactSource {
 public:
  /// `store` may be null (memory only).
  ArtifactSource(std::shared_ptr<Store> store, std::shared_ptr<LiveCounters> counters, Logger logger);

  Result<Obtained> get_or_build(const BuildRequest& request, Compiler& compiler);
  /// For an artifact that verified but that the driver refused to load: compiles anew and replaces it everywhere, unless another thread
  /// has done so already; then that one's.
  Result<Obtained> rebuild(const BuildRequest& request, Compiler& compiler, const ArtifactPointer& refused);

 private:
  using Outcome = Result<ArtifactPointer>;
  /// `refused`: not to be answered again; null: anything goes.
  Result<Obtained> obtain(const BuildRequest& request, Compiler& compiler, const ArtifactPointer& refused);
  Result<Obtained> read_or_compile(const EntryKey& key, const BuildRequest& request, Compiler& compiler, const CompilerIdentity& identity,
                                   bool may_hit);
  Outcome compile(const EntryKey& key, const BuildRequest& request, Compiler& compiler, const CompilerIdentity& identity);
  void publish(const Artifact& artifact);

  std::shared_ptr<Store> store_;
  std::shared_ptr<LiveCounters> counters_;
  Logger logger_;

  std::mutex mutex_;
  std::map<EntryKey, ArtifactPointer> built_;
  std::map<EntryKey, std::shared_future<Outcome>> building_;
  bool store_warned_ = false;
};

}  // namespace kernwright
