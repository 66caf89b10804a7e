// The run-time parameters of paged_kv/update_tables: one struct for the kernel and for the pool that fills it.
#pragma once

namespace kw::paged_kv {

/// A launch's parameters have at most 4 KiB (CUDA C++ programming guide, Function Parameters).
inline constexpr int most_cells = 250;
inline constexpr int most_tables = 4;

struct UpdateTablesParams {
  long long* tables[most_tables];
  int count;  // of cells; 0: nothing to do
  struct Cell {
    long long place;  // most_tables * index + table; no cell comes twice in a launch
    long long value;
  } cells[most_cells];
};
static_assert(sizeof(UpdateTablesParams) <= 4096);

}  // namespace kw::paged_kv
