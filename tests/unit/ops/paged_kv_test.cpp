// The paged KV kernels on the host interpreter. tests/gpu runs the same cases on a CUDA device.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>

#include "cases/paged_kv_case.hpp"
#include "fixtures/shared_store.hpp"
#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::cases;

namespace {

void run_all(int page_size) {
  const Runtime runtime = tests::shared_store_runtime();
  for (const PagedKvCase& c : paged_kv_cases()) {
    if (c.page_size != page_size) continue;
    CAPTURE(c.text());
    block_tables_are_right(runtime, DeviceId::host(), c);
    block_tables_agree_with_token_indices(runtime, DeviceId::host(), c);
    token_indices_are_right(runtime, DeviceId::host(), c);
    translation_in_place_is_right(runtime, DeviceId::host(), c);
    write_locations_are_right(runtime, DeviceId::host(), c);
    rows_land_where_they_should(runtime, DeviceId::host(), c);
  }
  a_null_table_changes_nothing(runtime, DeviceId::host(), page_size);
}

}  // namespace

TEST_CASE("paged KV on host: pages of 1 token") {
  run_all(1);
}
TEST_CASE("paged KV on host: block tables longer than a block writes at a time") {
  long_block_tables_are_right(tests::shared_store_runtime(), DeviceId::host(), 9'000);
}
TEST_CASE("paged KV on host: block tables by each way of reading") {
  for (const char* tile : {"portable:m1n4s1w4", "portable:m1n2s1w8"}) {
    CAPTURE(tile);
    const tests::TemporaryFolder tables;
    std::ofstream(tables.path() / "table.toml")
        << fmt::format("format = 1\n[[tile]]\ntemplate = \"paged_kv/block_table\"\ntarget = \"default\"\ntile = \"{}\"\n", tile);
    RuntimeOptions options = tests::shared_store_options();
    options.tuning_folder = tables.path();
    const auto runtime = Runtime::create(options);
    REQUIRE(runtime);
    for (const PagedKvCase& c : paged_kv_cases()) {
      if (c.page_size == 16) block_tables_are_right(*runtime, DeviceId::host(), c);
    }
    long_block_tables_are_right(*runtime, DeviceId::host(), 9'000);
  }
}
TEST_CASE("paged KV on host: pages of 16 tokens") {
  run_all(16);
}
TEST_CASE("paged KV on host: pages of 64 tokens") {
  run_all(64);
}
TEST_CASE("paged KV on host: pages of 128 tokens") {
  run_all(128);
}
TEST_CASE("paged KV on host: pages move and are zeroed") {
  pages_move_and_are_zeroed(tests::shared_store_runtime(), DeviceId::host());
}
