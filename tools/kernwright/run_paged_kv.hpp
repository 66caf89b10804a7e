// kernwright run paged-kv
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/pool_hooks.hpp"
#include "paged_kv_input.hpp"
#include "support/sparse_mla_check.hpp"

namespace kernwright::tool {

struct RunPagedKvOptions {
  OutputOptions output;
  std::string input_file;                                                             ///< Empty: generated.
  std::string output_file;                                                            ///< Empty: none.
  std::optional<std::int64_t> batch, tokens, page_size, layers, heads, query_tokens;  ///< Empty: a default that depends on the device.
  std::optional<std::uint64_t> seed;
  std::string pools = "static,unified";
  std::string tile;             ///< Of the attention kernel. Empty: from the tuning tables.
  std::string target;           ///< Empty: KERNWRIGHT_TARGET, else auto.
  std::string template_folder;  ///< Laid over the built-in templates; empty: those alone.
  std::string write_list;       ///< The file for the launch list of what was prepared; empty: none.
  bool check = false;
};

ExitCode run_paged_kv(const RunPagedKvOptions& options);

/// One step of the run: a call, or several alike.
struct PagedKvStep {
  std::string name;
  double ms = 0;              ///< By events around its launches, once.
  std::int64_t compared = 0;  ///< Elements; 0 without --check.
  std::int64_t wrong = 0;
  std::string first_wrong;
};

/// What one pool went through.
struct PagedKvPoolReport {
  PoolKind kind = PoolKind::static_pool;
  std::int64_t layers = 1, pages = 0, moved_pages = 0;
  std::vector<PagedKvStep> steps;
  std::optional<support::SparseMlaCheck> attention;  ///< With --check.
  bool same_after_moves = true;                      ///< Attention before and after pages moved, bit for bit.
  std::map<std::string, std::uint64_t> launches;     ///< By template, of this pool alone.
  std::vector<PrepareReport> kernels;
  std::vector<std::int32_t> block_table;
  std::vector<std::int64_t> token_indices, write_locations;
  std::vector<support::Bf16> out;
  std::vector<float> lse;

  [[nodiscard]] bool passed() const;
};

struct PagedKvReport {
  DeviceInfo device;
  std::string input, output;
  std::int64_t batch = 0, tokens = 0, page_size = 0, layers = 0, virtual_pages = 0, heads = 0, query_tokens = 0, d_qk = 0;
  bool checked = false;
  std::vector<PagedKvPoolReport> pools;

  [[nodiscard]] bool passed() const;
};

std::string text_of(const PagedKvReport& report);
std::string json_of(const PagedKvReport& report);

}  // namespace kernwright::tool
