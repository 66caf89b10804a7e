#include "prepare/artifact_source.hpp"

#include <fmt/format.h>

#include "core/specialised_name.hpp"
#include "elf/elf_reader.hpp"
#include "key/key.hpp"
#include "prepare/boundary.hpp"
#include "prepare/miss_error.hpp"

namespace kernwright {

namespace {

/// "compiling sparse_mla/prefill (heads=8 …) for sm_90a"
std::string build_step(const BuildRequest& request) {
  return fmt::format("compiling {}{} for {}", request.kind == ArtifactKind::kernel ? "" : "the plans of ",
                     specialised_name(request.template_name, request.specialisation), request.target.name());
}

}  // namespace

ArtifactSource::ArtifactSource(Settings settings, std::shared_ptr<LiveCounters> counters, Logger logger)
    : stores_(std::move(settings.stores)),
      compilers_(std::move(settings.compilers)),
      sealed_(settings.sealed),
      budget_(std::move(settings.budget)),
      counters_(std::move(counters)),
      logger_(std::move(logger)) {}

Result<Obtained> ArtifactSource::get_or_build(const BuildRequest& request, Compiler& compiler, const std::optional<Tile>& asked) {
  return obtain(request, compiler, asked, nullptr);
}

Result<Obtained> ArtifactSource::rebuild(const BuildRequest& request, Compiler& compiler, const ArtifactPointer& refused) {
  return obtain(request, compiler, std::nullopt, refused);
}

Result<Obtained> ArtifactSource::obtain(const BuildRequest& request, Compiler& compiler, const std::optional<Tile>& asked,
                                        const ArtifactPointer& refused) {
  const auto choice = compilers_->choose(compiler);
  if (!choice) return fail(Error(choice.error()));
  const EntryKey key = entry_key(request, choice->identities.front());

  std::promise<Outcome> promise;
  for (;;) {
    std::unique_lock lock(mutex_);
    if (const auto found = built_.find(key); found != built_.end() && found->second != refused) {
      count(counters_->memory_hits);
      return Obtained{found->second, CacheSource::memory, 0};
    }
    const auto under_way = building_.find(key);
    if (under_way == building_.end()) {
      building_.emplace(key, promise.get_future().share());
      break;
    }
    const std::shared_future<Outcome> future = under_way->second;
    lock.unlock();
    count(counters_->waits);
    Outcome outcome = future.get();
    if (!outcome) return fail(std::move(outcome.error()));
    if (*outcome != refused) return Obtained{std::move(*outcome), CacheSource::memory, 0};
  }

  // Whatever happens, those who wait get an answer and the key is free again.
  Result<Obtained> obtained = without_exceptions([&] { return find_or_build(key, request, compiler, *choice, asked, refused == nullptr); });
  {
    const std::lock_guard lock(mutex_);
    if (obtained) built_.insert_or_assign(key, obtained->artifact);
    building_.erase(key);
  }
  promise.set_value(obtained ? Outcome(obtained->artifact) : Outcome(tl::unexpected<Error>(obtained.error())));
  return obtained;
}

Result<Obtained> ArtifactSource::find_or_build(const EntryKey& key, const BuildRequest& request, Compiler& compiler,
                                               const CompilerChoice::Choice& choice, const std::optional<Tile>& asked, bool may_hit) {
  if (may_hit) {
    if (auto found = stores_->find(request, choice.identities)) return Obtained{std::move(found->artifact), found->source, 0};
  }
  count(counters_->misses);
  if (choice.present) return build(key, request, compiler, choice.identities.front(), may_hit);
  if (sealed_) count(counters_->sealed_misses);
  return fail(miss_error({request, asked, choice.identities, stores_->folders(), sealed_, choice.absence.message}));
}

Result<Obtained> ArtifactSource::build(const EntryKey& key, const BuildRequest& request, Compiler& compiler,
                                       const CompilerIdentity& identity, bool may_hit) {
  // A refused entry is replaced whoever else builds.
  const BuildLock lock = may_hit ? stores_->lock(key, build_step(request)) : BuildLock{};
  if (lock.held || lock.waited) {
    // Whoever had the lock may have been done between our look and our lock, so that there was nothing to wait for.
    if (auto found = stores_->find_new(request, identity)) return Obtained{std::move(found->artifact), found->source, 0};
  }
  auto artifact = compile(key, request, compiler, identity);
  const bool published = artifact && stores_->publish(**artifact);
  lock.done(published);
  if (!artifact) return fail(std::move(artifact.error()));
  const double milliseconds = (*artifact)->compile_seconds * 1e3;
  return Obtained{std::move(*artifact), CacheSource::built, milliseconds};
}

ArtifactSource::Outcome ArtifactSource::compile(const EntryKey& key, const BuildRequest& request, Compiler& compiler,
                                                const CompilerIdentity& identity) {
  const bool is_kernel = request.kind == ArtifactKind::kernel;
  const std::string what = build_step(request);
  const CompileBudget::Turn turn(*budget_);
  logger_(LogLevel::info, what);
  auto output = compiler.compile(request);
  count(counters_->compiles);
  if (!output) return fail(std::move(output.error()).within(what));
  count(counters_->compile_microseconds, static_cast<std::uint64_t>(output->seconds * 1e6));

  auto artifact = std::make_shared<Artifact>();
  auto plans = elf::plans(output->binary, is_kernel ? "kw_plan" : "kw_plans", request.tiles.size());
  if (!plans) return fail(std::move(plans.error()).within(what));
  artifact->plans = std::move(*plans);
  if (is_kernel) {
    auto resources = compiler.resources(request, output->binary, output->log);
    if (!resources) return fail(std::move(resources.error()).within(what));
    artifact->resources = *resources;
    artifact->binary = std::move(output->binary);
  }
  artifact->key = key;
  artifact->request = request;
  artifact->compiler = identity;
  artifact->log = std::move(output->log);
  artifact->compile_seconds = output->seconds;
  return ArtifactPointer(std::move(artifact));
}

}  // namespace kernwright
