// Sparse MLA prefill: attention of each token over the KV rows that its index list selects.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernwright/pool_hooks.hpp"
#include "kernwright/runtime.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright {

struct SparseMlaPrefillOptions {
  DeviceId device;
  int heads = 0;                  ///< Query heads on this rank, 1 to 128.
  int max_topk = 4096;            ///< The largest K that `run` will be given, 1 to 4096.
  int d_qk = 576;                 ///< 576 (512 latent + 64 rope) or 512 (no rope part).
  int d_v = 512;                  ///< 512.
  DType dtype = DType::bf16;      ///< Of q, kv and out.
  std::optional<int> group_size;  ///< Union G: tokens that share one gathered union of rows: 0 (off), 2, 4, 8, 16; empty: chosen (`auto`).
  bool deterministic = false;     ///< Batch-invariant: a token's result depends on nothing but its own inputs. Turns union off.
  int index_kpool = 1;            ///< Rows that one index stands for. Only 1 is supported; more is refused.
  Bytes workspace_limit = mebibytes(256);  ///< Bounds workspace_bytes(); must hold one group of max_topk rows a token.
  std::optional<Tile> tile;                ///< Of the attention kernel; empty: from the tuning tables.
  PoolKind pool =
      PoolKind::static_pool;  ///< What kv is a part of; of a unified pool it is a layer's dense view, and indices are dense ids.
  PoolReaders readers = PoolReaders::with_defaults();  ///< Asked whether "kernwright/sparse_mla_prefill" reads such a pool.
};

/// All pointers are on the op's device. Strides are in elements.
struct SparseMlaPrefillArguments {
  TensorView q;            ///< [T, H, d_qk] bf16; innermost stride 1, others multiples of 8, 16-byte aligned.
  TensorView kv;           ///< [S, d_qk] bf16; innermost stride 1, row stride a multiple of 8, 16-byte aligned. V is its first 512 columns.
  TensorView indices;      ///< [T, K] int32, dense. Below 0 or at or above S: an empty slot.
  TensorView topk_length;  ///< [T] int32 or absent: slots at or past it are not looked at; clamped to [0, K].
  TensorView attn_sink;    ///< [H] fp32 or absent: a logit (natural units) that joins the denominator only.
  float sm_scale = 0;      ///< Finite.
  TensorView out;          ///< [T, H, 512] bf16; innermost stride 1, others multiples of 8, 16-byte aligned.
  TensorView max_logits;   ///< [T, H] fp32, dense, or absent: the largest scaled logit; -inf where a token selects nothing.
  TensorView lse;          ///< [T, H] fp32, dense, or absent: natural logarithm of the sum of exp(scaled logits), without the sink;
                           ///< +inf where a token selects nothing.
  void* workspace = nullptr;  ///< At least workspace_bytes(T, S), 256-byte aligned; may be null per token.
  Bytes workspace_size;
};

/// A prepared op. Cheap to copy, usable from any thread; two streams that run at once need two workspaces.
class SparseMlaPrefill {
 public:
  /// Validates the options and prepares every kernel that `run` may launch. invalid_argument and unsupported name the option, what came
  /// and what is legal.
  static Result<SparseMlaPrefill> create(const Runtime& runtime, const SparseMlaPrefillOptions& options);
  /// The same on a thread of the runtime's own (see Runtime::prepare_async), so that no request waits for a compiler.
  static std::shared_future<Result<SparseMlaPrefill>> create_async(const Runtime& runtime, const SparseMlaPrefillOptions& options);

  /// Enough for any K up to max_topk, at most workspace_limit: a larger T runs in chunks of whole groups inside one `run`. It grows with
  /// both arguments: what suffices for the largest call suffices for every other. Per token 0, or 256 where T is so large that blocks had
  /// better take tokens one by one; there it may be left out, at some cost of time.
  [[nodiscard]] Bytes workspace_bytes(std::int64_t tokens, std::int64_t kv_rows) const noexcept;

  /// Enqueues the whole operation. Legal while the stream captures: a replay reads the indices that are there then.
  /// A position that a row of `indices` repeats counts once with union, and once per repetition without.
  /// A selected kv row that is not finite reaches its selectors per token, and every token of the group with union.
  [[nodiscard]] Result<> run(const SparseMlaPrefillArguments& arguments, StreamHandle stream) const;

  /// As run(), and records after_launch[i] behind launch i of launch_shapes(): what each kernel of the op takes. Launches past the span's
  /// end are not marked.
  [[nodiscard]] Result<> run_timed(const SparseMlaPrefillArguments& arguments, StreamHandle stream, std::span<Event> after_launch) const;

  [[nodiscard]] std::optional<int> union_asked() const noexcept;   ///< Empty: auto.
  [[nodiscard]] int union_used() const noexcept;                   ///< 0 where off.
  [[nodiscard]] const std::string& union_reason() const noexcept;  ///< Why union_used is not union_asked, or how auto chose.
  /// One report a kernel: where union is on, union build and union build for more than 32,768 kv rows, of which a call launches one; the
  /// attention last.
  [[nodiscard]] std::vector<PrepareReport> reports() const;
  [[nodiscard]] std::vector<Kernel> kernels() const;
  /// The grid and launch count that `run` would use for this shape, one item a launch, for reports.
  struct LaunchShape {
    std::string template_name;
    Grid grid;
    int threads = 0;
    int dynamic_shared = 0;
  };
  [[nodiscard]] std::vector<LaunchShape> launch_shapes(std::int64_t tokens, std::int64_t topk, std::int64_t kv_rows) const;

 private:
  struct State;
  explicit SparseMlaPrefill(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// A debug check: the first token whose row names a valid position twice (union would count it once). Copies `indices` [T, K] int32 (and
/// `topk_length` [T] where present) from `device` and waits; not for the serving path.
struct RepeatedPosition {
  std::int64_t token = 0;
  std::int32_t position = 0;
  std::int64_t first_slot = 0;
  std::int64_t second_slot = 0;
};
Result<std::optional<RepeatedPosition>> find_repeated_position(const Runtime& runtime, DeviceId device, const TensorView& indices,
                                                               const TensorView& topk_length, std::int64_t kv_rows);

}  // namespace kernwright
