#include "prepare/runtime_state.hpp"

#include <fmt/format.h>

#include "backend/backends.hpp"
#include "recording/record_settings.hpp"

namespace kernwright {
namespace {

StoreStack::Settings store_settings(const RuntimeOptions& options, const std::shared_ptr<FileSystem>& files,
                                    const std::shared_ptr<Clock>& clock) {
  StoreStack::Settings settings;
  settings.lock_wait_limit_seconds = options.lock_wait_limit_seconds;
  if (options.memory_only) return settings;
  if (options.read_only_stores) {
    for (const auto& folder : *options.read_only_stores) {
      settings.read_only.push_back(std::make_shared<Store>(folder, files, clock, StoreSettings{.access = StoreAccess::read_only}));
    }
  }
  if (const auto folder = default_store_folder(options.store)) {
    settings.writable = std::make_shared<Store>(
        *folder, files, clock,
        StoreSettings{.shared = options.store_shared.value_or(false), .limit = options.store_limit.value_or(Bytes{})});
  }
  return settings;
}

}  // namespace

std::shared_ptr<Runtime::State> Runtime::State::create(RuntimeOptions resolved, RuntimeParts parts) {
  auto state = std::make_shared<State>();
  state->options = std::move(resolved);
  state->logger = Logger(state->options.log, state->options.log_level.value_or(LogLevel::warn));
  state->files = std::move(parts.files);
  const RuntimeOptions& options = state->options;
  state->tuning_folder = tuning_folder_of(options);
  state->cuda = make_cuda_backend(state->options, state->logger);
  state->host = make_host_backend(state->options, state->logger);
  state->counters = std::make_shared<LiveCounters>();
  StoreStack::Settings settings = store_settings(options, state->files, parts.clock);
  settings.remote = std::move(parts.remote);
  state->stores = std::make_shared<StoreStack>(std::move(settings), parts.clock, state->counters, state->logger);
  const bool sealed = options.sealed.value_or(false);
  state->compilers = std::make_shared<CompilerChoice>(state->stores, sealed, options.compiler);
  state->budget = std::make_shared<CompileBudget>(options.compiles_at_once);
  state->artifacts = std::make_unique<ArtifactSource>(ArtifactSource::Settings{state->stores, state->compilers, sealed, state->budget},
                                                      state->counters, state->logger);
  if (auto recorded = record_settings(options.record, state->logger)) {
    state->recorder = std::make_unique<Recorder>(std::move(*recorded), state->files, parts.clock, state->logger);
  }
  state->background = std::make_unique<BackgroundWork>([budget = state->budget] { return static_cast<std::size_t>(budget->at_once()); });
  return state;
}

Result<DeviceInfo> Runtime::State::device(DeviceId id) {
  auto& known = id.backend == BackendKind::host ? host_devices_ : cuda_devices_;
  auto devices = known.get([&] { return backend(id.backend)->devices(); });
  if (!devices) return fail(std::move(devices.error()));
  for (const DeviceInfo& device : *devices) {
    if (device.id == id) return device;
  }
  return fail(ErrorCode::not_found,
              fmt::format("there is no device {}; the driver lists {} of them, numbered from 0", to_string(id), devices->size()));
}

Result<std::shared_ptr<TemplateSet>> Runtime::State::templates() {
  return templates_.get([&]() -> Result<std::shared_ptr<TemplateSet>> {
    if (!options.template_folder) return template_set_of(embedded_template_tree());
    auto tree = template_tree_in_folder(*options.template_folder, *files);
    if (!tree) return fail(std::move(tree.error()));
    auto set = template_set_of(embedded_template_tree(), *tree);
    if (!set)
      return fail(std::move(set.error())
                      .within("laying the template folder " + options.template_folder->string() + " over the built-in templates"));
    return set;
  });
}

Result<std::shared_ptr<const TuningTables>> Runtime::State::tables() {
  return tables_.get([&] { return read_tuning_tables(tuning_folder, *files, logger); });
}

bool Runtime::State::warn_once(const std::string& subject, std::string_view text) {
  {
    const std::lock_guard lock(warned_mutex_);
    if (!warned_.insert(subject).second) return false;
  }
  logger(LogLevel::warn, text);
  return true;
}

}  // namespace kernwright
