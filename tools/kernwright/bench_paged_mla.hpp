// kernwright bench paged-mla
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch_timing.hpp"
#include "console.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/pool_hooks.hpp"
#include "paged_mla_points.hpp"
#include "support/sparse_mla_check.hpp"

namespace kernwright::tool {

struct BenchPagedMlaOptions {
  OutputOptions output;
  std::string json_file;  ///< Empty: none; "-": stdout.
  std::string points;     ///< Empty: the device's default.
  std::string pools = "static,unified";
  std::string block_table;  ///< Empty: the device's default; "none": not measured.
  std::optional<int> query_tokens;
  int page_size = 64;
  std::optional<int> layers;
  std::string tile;
  std::string target;
  std::string template_folder;  ///< Laid over the built-in templates; empty: those alone.
  std::string launches;         ///< "graph", "stream", or empty: the device's default.
  std::optional<int> repetitions;
  std::uint64_t seed = 1;
  double matrix_tflops = 0;  ///< 0: of the device where it is known.
};

ExitCode bench_paged_mla(const BenchPagedMlaOptions& options);

/// One batch on one pool.
struct PagedMlaBenchPoint {
  PagedMlaPoint shape;
  PoolKind pool = PoolKind::static_pool;
  int layers = 1;                ///< L, less than asked for where memory holds no more.
  std::int64_t sets = 0;         ///< Batches that are read in turn.
  std::int64_t moved_pages = 0;  ///< By compaction, before.
  std::string tile;
  support::SparseMlaCheck check;
  std::int64_t checked_requests = 0;
  BatchTiming timing;
  double bytes = 0;       ///< Of kv, that one run reads: each row once.
  double operations = 0;  ///< Of one run, without the softmax.
};

/// Which page ids a request has: any, as after much coming and going, where each is looked up by itself; or consecutive ones, as a pool
/// hands them out to requests that are admitted whole.
enum class PageIds : std::uint8_t { anywhere, in_order };
std::string_view to_string(PageIds ids) noexcept;  ///< "anywhere", "in order"

/// The block table of one batch.
struct BlockTableBenchPoint {
  PagedMlaPoint shape;
  PoolKind pool = PoolKind::static_pool;
  PageIds ids = PageIds::anywhere;
  std::int64_t sets = 0;
  std::int64_t wrong_cells = 0;
  BatchTiming timing;
};

struct PagedMlaBenchReport {
  DeviceInfo device;
  std::string driver, compiler, date, version;
  bool graph = false;  ///< Batches are replayed graphs; the copy is not.
  int query_tokens = 1, page_size = 64, repetitions = 0, warm_ups = 0;
  std::uint64_t seed = 1;
  Bytes copied;                   ///< By each copy that copy_tbps is measured with.
  std::vector<double> copy_tbps;  ///< Bytes read and written.
  double matrix_tflops = 0;       ///< 0: not known.
  std::vector<PagedMlaBenchPoint> points;
  std::vector<BlockTableBenchPoint> block_tables;
  std::vector<PrepareReport> kernels;
};

std::string text_of(const PagedMlaBenchReport& report);  ///< At most 100 columns.
std::string json_of(const PagedMlaBenchReport& report);

}  // namespace kernwright::tool
