#include "prepare/artifact_source.hpp"

#include <fmt/format.h>

#include "elf/elf_reader.hpp"
#include "key/key.hpp"
#include "prepare/boundary.hpp"

namespace kernwright {

ArtifactSource::ArtifactSource(std::shared_ptr<Store> store, std::shared_ptr<LiveCounters> counters, Logger logger)
    : store_(std::move(store)), counters_(std::move(counters)), logger_(std::move(logger)) {}

Result<Obtained> ArtifactSource::get_or_build(const BuildRequest& request, Compiler& compiler) {
  return obtain(request, compiler, nullptr);
}

Result<Obtained> ArtifactSource::rebuild(const BuildRequest& request, Compiler& compiler, const ArtifactPointer& refused) {
  return obtain(request, compiler, refused);
}

Result<Obtained> ArtifactSource::obtain(const BuildRequest& request, Compiler& compiler, const ArtifactPointer& refused) {
  auto identity = compiler.identity();
  if (!identity) return fail(std::move(identity.error()));
  const EntryKey key = entry_key(request, *identity);

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
  Result<Obtained> obtained = without_exceptions([&] { return read_or_compile(key, request, compiler, *identity, refused == nullptr); });
  {
    const std::lock_guard lock(mutex_);
    if (obtained) built_.insert_or_assign(key, obtained->artifact);
    building_.erase(key);
  }
  promise.set_value(obtained ? Outcome(obtained->artifact) : Outcome(tl::unexpected<Error>(obtained.error())));
  return obtained;
}

Result<Obtained> ArtifactSource::read_or_compile(const EntryKey& key, const BuildRequest& request, Compiler& compiler,
                                                 const CompilerIdentity& identity, bool may_hit) {
  if (store_ && may_hit) {
    Store::Lookup lookup = store_->read(key, request, identity);
    if (lookup.outcome == Store::Outcome::hit) {
      count(counters_->store_hits);
      return Obtained{std::move(lookup.artifact), CacheSource::store, 0};
    }
    if (lookup.outcome == Store::Outcome::bad) {
      count(counters_->bad_entries);
      logger_(LogLevel::warn,
              fmt::format("entry {} of {} is bad and is built anew: {}", key.hex(), store_->folder().string(), lookup.problem));
    }
  }
  count(counters_->misses);
  auto artifact = compile(key, request, compiler, identity);
  if (!artifact) return fail(std::move(artifact.error()));
  publish(**artifact);
  const double milliseconds = (*artifact)->compile_seconds * 1e3;
  return Obtained{std::move(*artifact), CacheSource::built, milliseconds};
}

ArtifactSource::Outcome ArtifactSource::compile(const EntryKey& key, const BuildRequest& request, Compiler& compiler,
                                                const CompilerIdentity& identity) {
  const bool is_kernel = request.kind == ArtifactKind::kernel;
  const std::string what = fmt::format("compiling {} {} ({}) for {}", is_kernel ? "" : "the plans of", request.template_name,
                                       request.specialisation.text(), request.target.name());
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

void ArtifactSource::publish(const Artifact& artifact) {
  if (!store_) return;
  auto published = store_->publish(artifact);
  if (published) return;
  count(counters_->store_warnings);
  // One warning: what was compiled is in memory, so nothing is lost but the next process's time.
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(store_warned_, true)) return;
  }
  logger_(LogLevel::warn,
          fmt::format("the store {} takes no entries; going on from memory: {}", store_->folder().string(), published.error().text()));
}

}  // namespace kernwright
