// The remote cache behind the stores: read through, written back, and never in the way.
#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "fixtures/example_artifact.hpp"
#include "fixtures/fake_compiler.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/temporary_folder.hpp"
#include "kernwright/runtime.hpp"
#include "prepare/artifact_source.hpp"
#include "store/entry_format.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

/// A server in this process: what it holds, and how it behaves.
class FakeRemote final : public RemoteTier {
 public:
  std::map<EntryKey, std::vector<std::byte>> held;
  Fetched::Outcome otherwise = Fetched::Outcome::miss;
  int fetches = 0, flushes = 0;

  Fetched fetch(const EntryKey& key) override {
    const std::lock_guard lock(mutex_);
    ++fetches;
    const auto found = held.find(key);
    if (found == held.end()) return {otherwise, {}, "as the test says"};
    return {Fetched::Outcome::hit, found->second, {}};
  }
  void store(const EntryKey& key, std::shared_ptr<const std::vector<std::byte>> entry) override {
    const std::lock_guard lock(mutex_);
    held[key] = *entry;
  }
  void flush(double) override { ++flushes; }
  [[nodiscard]] Statistics statistics() const override { return {}; }

 private:
  std::mutex mutex_;
};

struct Stack {
  Stack(std::shared_ptr<Store> writable, std::shared_ptr<RemoteTier> remote)
      : counters(std::make_shared<LiveCounters>()),
        stores(StoreStack::Settings{{}, std::move(writable), std::move(remote), 1}, Clock::system(), counters, lines.logger()) {}
  LogLines lines;
  std::shared_ptr<LiveCounters> counters;
  StoreStack stores;
};

std::shared_ptr<Store> store_in(const std::filesystem::path& folder) {
  return std::make_shared<Store>(folder, FileSystem::posix(), Clock::system());
}

const std::vector<CompilerIdentity> kCompilers{example_compiler()};

}  // namespace

TEST_CASE("remote stack: what one machine built another fetches, and keeps in its own store") {
  const TemporaryFolder folder;
  const auto remote = std::make_shared<FakeRemote>();
  const Artifact artifact = example_artifact();
  Stack builder(store_in(folder.path() / "builder"), remote);
  CHECK_FALSE(builder.stores.find(artifact.request, kCompilers));
  builder.stores.publish(artifact);
  CHECK(remote->held.size() == 1);
  CHECK(remote->held.begin()->second == *encode_entry(artifact));

  Stack server(store_in(folder.path() / "server"), remote);
  const auto fetched = server.stores.find(artifact.request, kCompilers);
  REQUIRE(fetched);
  CHECK(fetched->source == CacheSource::remote);
  CHECK(fetched->artifact->binary == artifact.binary);
  CHECK(server.counters->read().remote_hits == 1);
  // From now on it is on the disk: the server is not asked again.
  const int asked = remote->fetches;
  Stack again(store_in(folder.path() / "server"), remote);
  const auto local = again.stores.find(artifact.request, kCompilers);
  REQUIRE(local);
  CHECK(local->source == CacheSource::store);
  CHECK(remote->fetches == asked);
  again.stores.flush_remote(1);
  CHECK(remote->flushes == 1);
}

TEST_CASE("remote stack: an authentic entry of something else is bad, said, and not kept") {
  const TemporaryFolder folder;
  const auto remote = std::make_shared<FakeRemote>();
  const Artifact artifact = example_artifact();
  remote->held[artifact.key] = *encode_entry(example_artifact_with(16, 100));
  Stack stack(store_in(folder.path()), remote);
  CHECK_FALSE(stack.stores.find(artifact.request, kCompilers));
  CHECK(stack.counters->read().remote_bad == 1);
  CHECK(stack.lines.containing("remote cache is bad", LogLevel::warn) == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "entries"));
}

TEST_CASE("remote stack: a server that does not answer costs a count and nothing else") {
  const TemporaryFolder folder;
  const auto remote = std::make_shared<FakeRemote>();
  remote->otherwise = RemoteTier::Fetched::Outcome::unavailable;
  Stack stack(store_in(folder.path()), remote);
  const Artifact artifact = example_artifact();
  CHECK_FALSE(stack.stores.find(artifact.request, kCompilers));
  CHECK(stack.counters->read().remote_unavailable == 1);
  stack.stores.publish(artifact);
  CHECK(stack.stores.find(artifact.request, kCompilers)->source == CacheSource::store);
}

TEST_CASE("remote stack: without any disk store the remote cache serves all the same") {
  const auto remote = std::make_shared<FakeRemote>();
  const Artifact artifact = example_artifact();
  Stack(nullptr, remote).stores.publish(artifact);
  Stack stack(nullptr, remote);
  const auto fetched = stack.stores.find(artifact.request, kCompilers);
  REQUIRE(fetched);
  CHECK(fetched->source == CacheSource::remote);
}

TEST_CASE("remote stack: a wrong setting is the runtime's error, with what is legal and without the password") {
  const TemporaryFolder folder;
  RuntimeOptions options;
  options.memory_only = true;
  options.remote.url = "redis://:secret@host:6379";
  const auto keyless = Runtime::create(options);
  REQUIRE_FALSE(keyless);
  CHECK_MESSAGE(keyless.error().text().find("secret@") == std::string::npos, keyless.error().text());
  CHECK_MESSAGE(keyless.error().text().find("KERNWRIGHT_REMOTE_KEY_FILE") != std::string::npos, keyless.error().text());
  options.remote.url = "http://host";
  const auto refused = Runtime::create(options);
  REQUIRE_FALSE(refused);
  CHECK_MESSAGE(refused.error().text().find("redis://") != std::string::npos, refused.error().text());
}
