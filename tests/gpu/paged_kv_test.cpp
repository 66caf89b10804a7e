// The paged KV kernels on the device.
#include <doctest/doctest.h>

#include "cases/paged_kv_case.hpp"
#include "cases/unified_pool_model.hpp"
#include "gpu/gpu_fixture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::kDevice;

TEST_CASE("gpu paged KV: translation, writes and moves, every page size and multiplier") {
  const Runtime runtime = gpu::runtime();
  for (const PagedKvCase& c : paged_kv_cases()) {
    CAPTURE(c.text());
    block_tables_are_right(runtime, kDevice, c);
    block_tables_agree_with_token_indices(runtime, kDevice, c);
    token_indices_are_right(runtime, kDevice, c);
    translation_in_place_is_right(runtime, kDevice, c);
    write_locations_are_right(runtime, kDevice, c);
    rows_land_where_they_should(runtime, kDevice, c);
  }
  for (const int page_size : {1, 16, 64, 128}) a_null_table_changes_nothing(runtime, kDevice, page_size);
  long_block_tables_are_right(runtime, kDevice, 70'000);
  pages_move_and_are_zeroed(runtime, kDevice);
}

TEST_CASE("gpu unified pool: random operations, every live byte checked") {
  const Runtime runtime = gpu::runtime();
  pool_keeps_every_byte(runtime, kDevice, {Compaction::eager, 5000, 30, 1});
  pool_keeps_every_byte(runtime, kDevice, {Compaction::deferred, 5000, 30, 2});
}
