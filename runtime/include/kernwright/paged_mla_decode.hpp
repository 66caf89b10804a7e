// Paged MLA decode: attention of a request's newest tokens over its paged KV.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/pool_hooks.hpp"
#include "kernwright/runtime.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright {

struct PagedMlaDecodeOptions {
  DeviceId device;
  int heads = 0;                                       ///< Query heads on this rank, 1 to 128.
  int query_tokens = 1;                                ///< s_q: new tokens of each request, 1 to 8; causal among themselves.
  int page_size = 64;                                  ///< Tokens a page: 1, 2, 4, … 128.
  int d_qk = 576;                                      ///< 576 (512 latent + 64 rope) or 512 (no rope part).
  int d_v = 512;                                       ///< 512.
  DType dtype = DType::bf16;                           ///< Of q, kv and out.
  PoolKind pool = PoolKind::static_pool;               ///< What the block table's page ids come from.
  PoolReaders readers = PoolReaders::with_defaults();  ///< Asked whether "kernwright/paged_mla_decode" reads such a pool.
  /// Shares of equal work that the keys of a batch are cut into, 1 to 65,536; empty: as many as keep the device busy. With 1 no request
  /// is split and nothing is merged.
  std::optional<int> shares;
  std::optional<Tile> tile;  ///< Of the attention kernel; empty: from the tuning tables.
};

/// All pointers are on the op's device. Strides are in elements.
struct PagedMlaDecodeArguments {
  TensorView q;            ///< [B, s_q, H, d_qk] bf16; innermost stride 1, others multiples of 8, 16-byte aligned.
  TensorView kv;           ///< [S, d_qk] bf16: a layer's dense view (UnifiedPool::dense_view), or a static pool's rows; innermost stride 1,
                           ///< row stride a multiple of 8, 16-byte aligned. V is its first 512 columns.
  TensorView block_table;  ///< [B, W] int32, innermost stride 1: page ids as PagedKv::block_table writes them: token t of request b is row
                           ///< block_table[b, t / page_size] · page_size + t mod page_size. Cells past a request's pages are not read. A
                           ///< row outside [0, S) is an empty slot.
  TensorView seq_lens;  ///< [B] int32 or int64, dense: tokens of each request, the s_q new ones included; clamped to [0, W · page_size].
  float sm_scale = 0;   ///< Finite.
  TensorView out;       ///< [B, s_q, H, 512] bf16; innermost stride 1, others multiples of 8, 16-byte aligned.
  TensorView lse;       ///< [B, s_q, H] fp32, dense, or absent: natural logarithm of the sum of exp(scaled logits); +inf where a token
                        ///< attends to nothing.
  void* workspace = nullptr;  ///< At least workspace_bytes(), 256-byte aligned; may be null where that is 0.
  Bytes workspace_size;
};

/// A prepared op. Cheap to copy, usable from any thread; two streams that run at once need two workspaces.
///
/// New token i of s_q stands at position seq_len − s_q + i and attends to the keys up to itself. A token that attends to nothing (seq_len
/// 0, or shorter than s_q) gets out 0 and lse +inf. A key that is not finite reaches every new token of its request; rows past seq_len are
/// never read.
class PagedMlaDecode {
 public:
  /// Validates the options and prepares every kernel that `run` may launch. invalid_argument and unsupported name the option, what came
  /// and what is legal.
  static Result<PagedMlaDecode> create(const Runtime& runtime, const PagedMlaDecodeOptions& options);
  /// The same on a thread of the runtime's own (see Runtime::prepare_async), so that no request waits for a compiler.
  static std::shared_future<Result<PagedMlaDecode>> create_async(const Runtime& runtime, const PagedMlaDecodeOptions& options);

  /// Whatever the batch and its lengths are. 0 where `shares` is 1.
  [[nodiscard]] Bytes workspace_bytes() const noexcept;

  /// Enqueues the attention, then the merge of what it split (one launch where `shares` is 1). Legal while the stream captures: both grids
  /// depend on B and the device alone, and a replay reads the lengths, tables and rows that are there then. For the same lengths and
  /// inputs the result is the same bits; how a request is split, and so its rounding, depends on the lengths of the whole batch.
  [[nodiscard]] Result<> run(const PagedMlaDecodeArguments& arguments, StreamHandle stream) const;

  [[nodiscard]] const PagedMlaDecodeOptions& options() const noexcept;
  /// One report a kernel, in launch order: attention, then merge (where there is one).
  [[nodiscard]] std::vector<PrepareReport> reports() const;
  [[nodiscard]] std::vector<Kernel> kernels() const;
  /// The launches that `run` would make for a batch, for reports.
  struct LaunchShape {
    std::string template_name;
    Grid grid;
    int threads = 0;
    int dynamic_shared = 0;
  };
  [[nodiscard]] std::vector<LaunchShape> launch_shapes(std::int64_t batch) const;

 private:
  struct State;
  explicit PagedMlaDecode(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kernwright
