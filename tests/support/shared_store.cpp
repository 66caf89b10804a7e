#include "support/shared_store.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "ops/sparse_mla_options.hpp"
#include "prepare/candidates.hpp"

namespace kernwright::tests {

Runtime shared_store_runtime() {
  RuntimeOptions options;
  const char* store = std::getenv("KERNWRIGHT_TEST_STORE");
  if (store != nullptr) {
    options.store = store;
  } else {
    options.memory_only = true;
  }
  auto runtime = Runtime::create(options);
  REQUIRE_MESSAGE(runtime, (runtime ? "" : runtime.error().text()));
  return *runtime;
}

std::optional<Tile> first_tile(const Runtime& runtime, const char* variant, const cases::SparseMlaCase& c) {
  Runtime::State& state = runtime.state();
  auto templates = state.templates();
  REQUIRE(templates);
  auto definition = (*templates)->find(kPrefillTemplate);
  REQUIRE(definition);
  auto specialisation =
      (*definition)
          ->manifest.complete(
              Specialisation{}.set("heads", c.heads).set("group_size", c.group_size == 0 ? 1 : c.group_size).set("d_qk", c.d_qk));
  REQUIRE(specialisation);
  auto device = runtime.device(DeviceId::host());
  REQUIRE(device);
  auto candidates = legal_candidates(state, **definition, *specialisation, std::nullopt, Target::host(), state.host->compiler());
  REQUIRE_MESSAGE(candidates, (candidates ? "" : candidates.error().text()));
  for (const Candidate& candidate : *candidates) {
    if (candidate.tile.variant == variant && over_limit(candidate.plan, limits_of(*device)).empty()) return candidate.tile;
  }
  return std::nullopt;
}

}  // namespace kernwright::tests
