#include "support/warm_text.hpp"

#include <doctest/doctest.h>

#include "support/format.hpp"

using namespace kernwright;
using namespace kernwright::support;

TEST_CASE("warm text: the bar says what is left first, then what is compiling") {
  WarmProgress progress;
  CHECK(warm_bar_detail(progress) == "plans ");
  progress.compiling = {"sm_90a a/b heads=8 plans"};
  CHECK(warm_bar_detail(progress) == "plans sm_90a a/b heads=8 plans");
  progress.planning = false;
  progress.seconds_left = 24.4;
  progress.compiling = {"sm_90a a/b heads=8 mma:m64n32s2w8", "x", "y"};
  CHECK(warm_bar_detail(progress) == "24 s left sm_90a a/b heads=8 mma:m64n32s2w8 (and 2 more)");
}

TEST_CASE("warm text: a line for each kernel that has finished, none for one that begins") {
  WarmProgress progress;
  progress.planning = false;
  progress.done = 12;
  progress.total = 173;
  progress.seconds_left = 200;
  CHECK(warm_line(progress).empty());
  WarmedItem item;
  item.template_name = "a/b";
  item.specialisation.set("heads", 8);
  item.target = *Target::parse("sm_90a");
  item.tile = *Tile::parse("mma:m64n32s2w8");
  item.outcome = WarmOutcome::built;
  item.compile_ms = 265.4;
  progress.finished = &item;
  CHECK(warm_line(progress) == "12/173 built sm_90a a/b heads=8 mma:m64n32s2w8 in 265 ms, 3 min left");
  item.outcome = WarmOutcome::hit;
  progress.done = 173;
  CHECK(warm_line(progress) == "173/173 hit sm_90a a/b heads=8 mma:m64n32s2w8");
}

TEST_CASE("format: durations are rounded as estimates are read") {
  CHECK(format_duration(-1) == "0 s");
  CHECK(format_duration(0.6) == "1 s");
  CHECK(format_duration(99) == "99 s");
  CHECK(format_duration(100) == "2 min");
  CHECK(format_duration(3569) == "59 min");
  CHECK(format_duration(3570) == "1 h 0 min");
  CHECK(format_duration(4800) == "1 h 20 min");
  CHECK(format_duration(1e300) == "100000 h 0 min");
}
