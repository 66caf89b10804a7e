#include "ops/sparse_mla_workspace.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace kernwright;

TEST_CASE("workspace: a group takes min(G*K, S) rows of index and mask, a count, and a call one counter of work") {
  // 4 groups of 8 tokens, K = 40, S = 100: the union has at most 100 rows.
  const UnionLayout small = union_layout(4, 8, 40, 100);
  CHECK(small.capacity == 100);
  CHECK(small.rows_offset == 512);               // 4 counts of 4 bytes
  CHECK(small.masks_offset == 512 + 1792);       // 400 rows of 4 bytes = 1600
  CHECK(small.size == Bytes{512 + 1792 + 512});  // 400 masks of 1 byte
  const UnionLayout wide = union_layout(4, 16, 40, 1'000'000);
  CHECK(wide.capacity == 640);
  CHECK(wide.size == Bytes{512 + 10'240 + 5'120});  // 2,560 rows of 4 bytes, masks of 2
}

TEST_CASE("workspace: as many whole groups as fit, up to 64-bit sizes") {
  constexpr Bytes kLimit = mebibytes(256);
  for (const int groups : {1, 3, 17, 1000}) {
    const Bytes exact = union_layout(groups, 8, 2048, 8192).size;
    CHECK(groups_that_fit(exact, 5000, 8, 2048, 8192) >= groups);
    CHECK(union_layout(groups_that_fit(exact, 5000, 8, 2048, 8192), 8, 2048, 8192).size <= exact);
    CHECK(groups_that_fit(Bytes{exact.count - 600}, 5000, 8, 2048, 8192) < groups);
  }
  CHECK(groups_that_fit(Bytes{0}, 10, 8, 2048, 8192) == 0);
  CHECK(groups_that_fit(kLimit, std::int64_t{1} << 40, 16, 4096, std::int64_t{1} << 40) == 682);  // 2^28 / (65,536 * 6 + 4)
  CHECK(groups_that_fit(kLimit, 7, 8, 2048, 0) == 7);
}

TEST_CASE("workspace: what is asked for grows with tokens and rows, so that one allocation serves every smaller call") {
  constexpr Bytes kLimit = mebibytes(256);
  for (const std::int64_t topk : {2048, 4096}) {
    for (const std::int64_t largest : {4096, 16384, 32768}) {
      const Bytes for_all = union_workspace(kLimit, largest / 8, 8, topk, 131'072);
      CHECK(for_all <= kLimit);
      for (std::int64_t rows = 100; rows <= 131'072; rows += 97) {
        for (const std::int64_t tokens : {largest, largest - 8, largest / 2, std::int64_t{8}}) {
          const Bytes one = union_workspace(kLimit, tokens / 8, 8, topk, rows);
          CHECK_MESSAGE(one <= for_all, tokens << " tokens over " << rows << " rows: " << one.count);
        }
      }
    }
  }
}
