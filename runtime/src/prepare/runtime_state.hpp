// What a Runtime handle shares: everything that prepare needs, opened when first asked for.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "kernwright/runtime.hpp"
#include "platform/clock.hpp"
#include "platform/file_system.hpp"
#include "platform/logger.hpp"
#include "prepare/artifact_source.hpp"
#include "prepare/background_work.hpp"
#include "prepare/compiler_choice.hpp"
#include "prepare/counting.hpp"
#include "prepare/fork_guard.hpp"
#include "prepare/kernel_registry.hpp"
#include "prepare/launch_record.hpp"
#include "prepare/store_stack.hpp"
#include "prepare/tuning_folder.hpp"
#include "recording/recorder.hpp"
#include "templates/template_set.hpp"
#include "tuning/tuning_tables.hpp"

namespace kernwright {

/// A value made on first use, by one thread; a failure is not kept, so that the next call tries again.
template <class T>
class Lazy {
 public:
  Result<T> get(const std::function<Result<T>()>& make) {
    const std::lock_guard lock(mutex_);
    if (value_) return *value_;
    Result<T> made = make();
    if (made) value_ = *made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::optional<T> value_;
};

/// What lies behind the options: the system's, but in tests, and the remote cache where there is one.
struct RuntimeParts {
  std::shared_ptr<FileSystem> files = FileSystem::posix();
  std::shared_ptr<Clock> clock = Clock::system();
  std::shared_ptr<RemoteTier> remote = nullptr;
};

/// Thread-safe. Tests make one with their own file system, clock and backends.
struct Runtime::State : std::enable_shared_from_this<Runtime::State> {
  RuntimeOptions options;  ///< Resolved.
  std::optional<TuningFolder> tuning_folder;
  Logger logger;
  std::shared_ptr<FileSystem> files;
  ForkGuard fork_guard;
  std::shared_ptr<StoreStack> stores;
  std::shared_ptr<CompilerChoice> compilers;
  std::shared_ptr<CompileBudget> budget;
  std::shared_ptr<Backend> cuda;
  std::shared_ptr<Backend> host;
  std::shared_ptr<LiveCounters> counters;
  std::unique_ptr<ArtifactSource> artifacts;
  LaunchRecord launch_record;
  std::unique_ptr<Recorder> recorder;  ///< Null: no call is recorded.

  static std::shared_ptr<State> create(RuntimeOptions resolved, RuntimeParts parts = {});

  [[nodiscard]] const std::shared_ptr<Backend>& backend(BackendKind kind) const { return kind == BackendKind::host ? host : cuda; }
  Result<DeviceInfo> device(DeviceId id);
  Result<std::shared_ptr<TemplateSet>> templates();
  Result<std::shared_ptr<const TuningTables>> tables();
  /// Logs a warning the first time that this text, or one about this subject, comes; false: it came before.
  bool warn_once(const std::string& text) { return warn_once(text, text); }
  bool warn_once(const std::string& subject, std::string_view text);

  KernelRegistry prepared;

 private:
  Lazy<std::shared_ptr<TemplateSet>> templates_;
  Lazy<std::shared_ptr<const TuningTables>> tables_;
  Lazy<std::vector<DeviceInfo>> cuda_devices_;
  Lazy<std::vector<DeviceInfo>> host_devices_;
  std::mutex warned_mutex_;
  std::set<std::string> warned_;

 public:
  /// Last, so that its threads end before anything that they use.
  std::unique_ptr<BackgroundWork> background;
};

}  // namespace kernwright
