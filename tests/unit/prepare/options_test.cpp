#include "prepare/options.hpp"

#include <doctest/doctest.h>

#include <string>

#include "fixtures/variable.hpp"
#include "prepare/tuning_folder.hpp"

using namespace kernwright;

using kernwright::tests::Variable;

TEST_CASE("options: variables fill what is empty, a set option wins") {
  const Variable mode("KERNWRIGHT_HOST_MODE", "threads"), bytes("KERNWRIGHT_HOST_SHARED_BYTES", "5000"), log("KERNWRIGHT_LOG", "debug"),
      tuning("KERNWRIGHT_TUNING_DIR", "/tables"), nvrtc("KERNWRIGHT_NVRTC", "/nvrtc");
  auto resolved = resolve_options({});
  REQUIRE(resolved);
  CHECK(resolved->host.mode == HostMode::threads);
  CHECK(resolved->host.shared_memory == Bytes{5000});
  CHECK(resolved->log_level == LogLevel::debug);
  CHECK(tuning_folder_of(*resolved)->path == "/tables");
  CHECK(tuning_folder_of(*resolved)->text() == "KERNWRIGHT_TUNING_DIR=/tables");
  CHECK(resolved->nvrtc == "/nvrtc");

  RuntimeOptions set;
  set.host.mode = HostMode::fibers;
  set.log_level = LogLevel::error;
  set.nvrtc = "/other";
  set.tuning_folder = "/mine";
  resolved = resolve_options(set);
  REQUIRE(resolved);
  CHECK(resolved->host.mode == HostMode::fibers);
  CHECK(resolved->log_level == LogLevel::error);
  CHECK(resolved->nvrtc == "/other");
  CHECK(tuning_folder_of(*resolved)->text() == "the option tuning_folder is /mine");
}

TEST_CASE("options: defaults without variables") {
  const Variable mode("KERNWRIGHT_HOST_MODE", nullptr), bytes("KERNWRIGHT_HOST_SHARED_BYTES", ""), log("KERNWRIGHT_LOG", nullptr);
  auto resolved = resolve_options({});
  REQUIRE(resolved);
  CHECK(resolved->host.mode == HostMode::fibers);
  CHECK(resolved->host.shared_memory == Bytes{232'448});
  CHECK(resolved->log_level == LogLevel::warn);
}

TEST_CASE("options: a variable that cannot be read is named with its value and what is legal") {
  for (const auto& [name, value] : {std::pair{"KERNWRIGHT_HOST_MODE", "fibres"},
                                    {"KERNWRIGHT_HOST_SHARED_BYTES", "48K"},
                                    {"KERNWRIGHT_HOST_SEED", "-1"},
                                    {"KERNWRIGHT_LOG", "loud"},
                                    {"KERNWRIGHT_SEALED", "yes"},
                                    {"KERNWRIGHT_CACHE_SHARED", "2"},
                                    {"KERNWRIGHT_CACHE_LIMIT", "10 GB"}}) {
    const Variable variable(name, value);
    auto resolved = resolve_options({});
    REQUIRE_FALSE(resolved);
    CHECK(resolved.error().code == ErrorCode::invalid_argument);
    CHECK(resolved.error().message.find(name) != std::string::npos);
    CHECK(resolved.error().message.find(value) != std::string::npos);
  }
}

TEST_CASE("options: stores, sealing and limits from variables") {
  const Variable stores("KERNWRIGHT_CACHE_STORES", ":/one::/two with space:"), sealed("KERNWRIGHT_SEALED", "1"),
      shared("KERNWRIGHT_CACHE_SHARED", "1"), limit("KERNWRIGHT_CACHE_LIMIT", "2M"), compiler("KERNWRIGHT_COMPILER", "nvrtc 13.0");
  auto resolved = resolve_options({});
  REQUIRE(resolved);
  CHECK(resolved->read_only_stores == std::vector<std::filesystem::path>{"/one", "/two with space"});
  CHECK(resolved->sealed == true);
  CHECK(resolved->store_shared == true);
  CHECK(resolved->store_limit == Bytes{2'097'152});
  CHECK(resolved->compiler == "nvrtc 13.0");

  RuntimeOptions set;
  set.read_only_stores.emplace();
  set.sealed = false;
  set.store_limit = Bytes{};
  resolved = resolve_options(set);
  REQUIRE(resolved);
  CHECK(resolved->read_only_stores->empty());
  CHECK(resolved->sealed == false);
  CHECK(resolved->store_limit == Bytes{});
  set.compiles_at_once = -1;
  CHECK_FALSE(resolve_options(set));
  set.compiles_at_once = 1;
  set.lock_wait_limit_seconds = 0;
  CHECK_FALSE(resolve_options(set));
}
