#include "kernwright/target.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace kernwright;

TEST_CASE("target: capabilities map to their targets") {
  const std::pair<std::pair<int, int>, const char*> table[] = {{{8, 0}, "sm_80"},    {{8, 6}, "sm_86"},    {{8, 9}, "sm_89"},
                                                               {{9, 0}, "sm_90a"},   {{10, 0}, "sm_100a"}, {{10, 3}, "sm_103a"},
                                                               {{11, 0}, "sm_110a"}, {{12, 0}, "sm_120a"}, {{12, 1}, "sm_121a"}};
  CHECK(Target::all_cuda().size() == 9);
  for (const auto& [capability, name] : table) {
    auto target = Target::for_capability(capability.first, capability.second);
    REQUIRE(target);
    CHECK(target->name() == name);
    CHECK(target->capability() == capability.first * 10 + capability.second);
  }
}

TEST_CASE("target: below 8.0 is refused, a newer one gets its family") {
  auto old = Target::for_capability(7, 5);
  REQUIRE_FALSE(old);
  CHECK(old.error().code == ErrorCode::unsupported);
  CHECK(old.error().message.find("7.5") != std::string::npos);
  auto newer = Target::for_capability(10, 7);
  REQUIRE(newer);
  CHECK(newer->name() == "sm_100f");
  CHECK(newer->capability() == 107);
  CHECK(Target::for_capability(8, 7)->name() == "sm_87");  // family targets begin at 10.0
}

TEST_CASE("target: parsing keeps the suffix and refuses what is none") {
  CHECK(Target::parse("sm_90")->name() == "sm_90");
  CHECK(Target::parse("sm_90a")->name() == "sm_90a");
  CHECK(*Target::parse("sm_90") != *Target::parse("sm_90a"));
  CHECK(Target::parse("host")->is_host());
  for (const char* wrong : {"", "sm_", "sm_a", "sm_75", "sm_90b", "sm_090", "sm_9000", "SM_90", "sm_90aa", "sm_-90", "hosts", "sm_90 "}) {
    CAPTURE(wrong);
    auto target = Target::parse(wrong);
    REQUIRE_FALSE(target);
    CHECK(target.error().code == ErrorCode::invalid_argument);
    CHECK(target.error().message.find("sm_90a") != std::string::npos);
  }
}

TEST_CASE("target: shared memory of a block is the programming guide's") {
  CHECK(Target::parse("sm_80")->shared_memory_bytes() == 166'912);
  CHECK(Target::parse("sm_90a")->shared_memory_bytes() == 232'448);
  CHECK(Target::parse("sm_120a")->shared_memory_bytes() == 101'376);
}
