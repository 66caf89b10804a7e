// What a launch needs. The same layout as kernwright::Plan (runtime/include/kernwright/plan.hpp), which documents the fields.
#pragma once

namespace kw {

struct Plan {
  int version = 1;
  int threads = 0;  // 0: this tile is not legal for this specialisation
  int dynamic_shared = 0;
  int rows_per_block = 0;
  int blocks_per_sm = 0;
  int cluster = 1;
  int programmatic_launch = 0;
  int params_bytes = 0;
};
static_assert(sizeof(Plan) == 32);

}  // namespace kw
