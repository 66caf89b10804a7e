// Paged MLA decode on the host interpreter. tests/gpu runs the same cases on a CUDA device.
#include <doctest/doctest.h>

#include "cases/paged_mla_case.hpp"
#include "fixtures/shared_store.hpp"

using namespace kernwright;
using namespace kernwright::cases;

namespace {

/// With the tile that an op would take, and without tensor cores.
void run_cases(int heads) {
  const Runtime runtime = tests::shared_store_runtime();
  for (PagedMlaCase c : paged_mla_cases()) {
    if (c.heads != heads) continue;
    decode_is_right(runtime, DeviceId::host(), c);
    c.tile = fitting_tiles(runtime, DeviceId::host(), c).back();
    CHECK(c.tile->variant == "portable");
    decode_is_right(runtime, DeviceId::host(), c);
  }
}

/// One specialisation for what is about tiles, shares and faults: all tiles are legal for its 64 rows.
PagedMlaCase draft_case() {
  PagedMlaCase c;
  c.heads = 16;
  c.query_tokens = 4;
  return c;
}

}  // namespace

// One test case for each head count, so that they run side by side.
TEST_CASE("paged MLA decode on host: 1 head") {
  run_cases(1);
}
TEST_CASE("paged MLA decode on host: 3 heads") {
  run_cases(3);
}
TEST_CASE("paged MLA decode on host: 8 heads") {
  run_cases(8);
}
TEST_CASE("paged MLA decode on host: 16 heads") {
  run_cases(16);
}
TEST_CASE("paged MLA decode on host: 128 heads") {
  run_cases(128);
}

TEST_CASE("paged MLA decode on host: every tile that is offered, by name") {
  const Runtime runtime = tests::shared_store_runtime();
  PagedMlaCase c = draft_case();
  c.lengths = {33, 3};
  const auto tiles = fitting_tiles(runtime, DeviceId::host(), c);
  CHECK(tiles.size() == 9);
  for (const Tile& tile : tiles) {
    c.tile = tile;
    decode_is_right(runtime, DeviceId::host(), c);
  }
}

TEST_CASE("paged MLA decode on host: any number of shares, from one to more than there are keys") {
  const Runtime runtime = tests::shared_store_runtime();
  PagedMlaCase c;
  c.page_size = 64;
  c.lengths = {5, 0, 49, 2, 66, 16};
  for (const int shares : {1, 2, 3, 9, 40}) {
    CAPTURE(shares);
    const auto check = run_apart(runtime, DeviceId::host(), c, shares, DecodeFault::none);
    CHECK_MESSAGE(check.passed, check.first_failure);
  }
  c.lengths = {400, 3};  // more pieces than a thread of the merge reads at once
  for (const int slices : {1, 2, 8, 32}) {
    CAPTURE(slices);
    const auto check = run_apart(runtime, DeviceId::host(), c, 40, DecodeFault::none, slices);
    CHECK_MESSAGE(check.passed, check.first_failure);
  }
  c.lengths = {200, 3};
  for (const int shares : {1, 5}) {
    c.shares = shares;
    decode_is_right(runtime, DeviceId::host(), c);
  }
}

TEST_CASE("paged MLA decode on host: the planted faults turn the check red") {
  const Runtime runtime = tests::shared_store_runtime();
  PagedMlaCase c = draft_case();
  c.lengths = {36, 9};
  c.planted = false;  // a key that holds all of the mass would hide what happens to the others
  CHECK(run_apart(runtime, DeviceId::host(), c, 3, DecodeFault::none).passed);
  for (const DecodeFault fault :
       {DecodeFault::split_dropped, DecodeFault::weight_wrong, DecodeFault::causal_off_by_one, DecodeFault::tail_not_masked}) {
    CAPTURE(to_string(fault));
    CHECK_FALSE(run_apart(runtime, DeviceId::host(), c, 3, fault).passed);
    CHECK_FALSE(run_apart(runtime, DeviceId::host(), c, 3, fault, 4).passed);
  }
}

TEST_CASE("paged MLA decode on host: compaction changes where rows are and nothing else") {
  PagedMlaCase c = draft_case();
  c.layers = 3;
  c.lengths = {18, 0, 2};
  const Runtime runtime = tests::shared_store_runtime();
  decode_follows_compaction(runtime, DeviceId::host(), c);
  c.heads = 8;
  sparse_form_follows_compaction(runtime, DeviceId::host(), c);
}

TEST_CASE("paged MLA decode on host: a query that is not finite, its request whole and cut") {
  const Runtime runtime = tests::shared_store_runtime();
  PagedMlaCase c;
  c.heads = 2;
  c.lengths = {200, 40};
  for (const int shares : {1, 4}) {
    c.shares = shares;
    query_that_is_not_finite_stays_alone(runtime, DeviceId::host(), c);
  }
}

TEST_CASE("paged MLA decode on host: no request, and requests without a token") {
  const Runtime runtime = tests::shared_store_runtime();
  PagedMlaCase c = draft_case();
  c.lengths = {};
  decode_is_right(runtime, DeviceId::host(), c);
  c.lengths = {0, 0, -1};
  decode_is_right(runtime, DeviceId::host(), c);
}
