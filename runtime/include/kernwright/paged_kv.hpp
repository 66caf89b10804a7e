// The kernels of a paged KV pool: id translation, KV writes, page moves. docs/paged_kv.md has the words and the layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernwright/runtime.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright {

/// What the kernels of one pool are specialised on.
struct PagedKvOptions {
  DeviceId device;
  int page_size = 64;                ///< Tokens a page, 1 to 4096.
  int multiplier = 1;                ///< L: full-attention layers whose pages share one envelope, 1 to 1024. A pool without a table has 1.
  bool has_table = false;            ///< Whether ids go through a v2p table: a unified pool. Nothing else tells the two kinds apart.
  std::int64_t pages = 0;            ///< Physical pages of the pool: decides whether 32 bits hold its ids. At least 1.
  DType token_dtype = DType::i32;    ///< Of req_to_token: i32 or i64.
  DType request_dtype = DType::i64;  ///< Of requests, lengths and starts: i32 or i64.
  DType index_dtype =
      DType::i32;  ///< Of the dense ids that token_indices and translate write. i32 is refused where pages · L · page_size is 2^31 or more.
  int latent_width = 512;     ///< Elements of a kv row's two parts; each part is a multiple of 16 bytes.
  int rope_width = 64;        ///< 0: none.
  DType dtype = DType::bf16;  ///< Of kv rows: bf16, f16 or u8.
};

/// v2p int64 [V + 1], dense; the last element, the tombstone, is -1. Absent: a static pool, whose ids are what they say.
struct PagedKvBatch {
  TensorView req_to_token;  ///< [slots, width] token_dtype, innermost stride 1: virtual token ids of a request in order.
  TensorView requests;      ///< [B] request_dtype, dense: the slot of each request.
  TensorView lengths;       ///< [B] request_dtype, dense: tokens; 0 or below: a padded lane, for which nothing is written.
  TensorView starts;        ///< [B] request_dtype, dense, or absent (0): the place in the slot's row of the first token.
  TensorView v2p;
};

/// Prepared kernels. Cheap to copy, usable from any thread. Every call enqueues exactly one launch (none where there is nothing to do)
/// and is legal while the stream captures: a replay reads what the arguments' memory holds then. All pointers are on the op's device.
class PagedKv {
 public:
  /// Validates the options and prepares every kernel. invalid_argument names the option, what came and what is legal.
  static Result<PagedKv> create(const Runtime& runtime, const PagedKvOptions& options);

  /// out[b, p] for p < ceil(lengths[b] / page_size): the page id of the dense views, max(0, v2p[row(t)]) · L, where t is the request's
  /// token at starts[b] + p · page_size. out: [B, width] int32, innermost stride 1; cells past a request's pages are left as they are. The
  /// caller sees to it that every request's pages fit the width. The grid depends on B alone.
  [[nodiscard]] Result<> block_table(const PagedKvBatch& batch, const TensorView& out, StreamHandle stream) const;
  /// out[offsets[b] + i] for i < lengths[b]: the dense id of the request's token at starts[b] + i. offsets: [B + 1] int32, dense,
  /// non-decreasing; out: [n] index_dtype, dense. The grid depends on B alone.
  [[nodiscard]] Result<> token_indices(const PagedKvBatch& batch, const TensorView& offsets, const TensorView& out,
                                       StreamHandle stream) const;
  /// out[i] = dense(in[i]) for i < count[0]; both [n] index_dtype, dense, and `out` may be `in`. count: [1] int32 on the device, clamped to
  /// [0, n], or absent (n). Elements past it are neither read nor written.
  [[nodiscard]] Result<> translate(const TensorView& in, const TensorView& out, const TensorView& count, const TensorView& v2p,
                                   StreamHandle stream) const;
  /// out[i] = dense(in[i]) for i < n, 0 for the rest: where a captured step writes its rows. in: [n] int64; out: [capacity] int64, both
  /// dense, n at most the capacity.
  [[nodiscard]] Result<> write_locations(const TensorView& in, const TensorView& out, const TensorView& v2p, StreamHandle stream) const;
  /// view[location[i]] = latent[i] ‖ rope[i]. latent: [n, latent_width], rope: [n, rope_width] (absent where that is 0), innermost stride
  /// 1, rows 16-byte aligned; locations: [n] int64, dense: dense ids where `dense`, else virtual token ids; view: [rows, latent_width +
  /// rope_width], a layer's dense view. A row for location 0 (the sink), or one outside the view, is not written.
  [[nodiscard]] Result<> write_rows(const TensorView& latent, const TensorView& rope, const TensorView& locations, bool dense,
                                    const TensorView& view, const TensorView& v2p, StreamHandle stream) const;
  /// Copies whole pages: moves [n, 2] int64, dense: source and destination; no page may be in two pairs. pool: 16-byte aligned; page_bytes
  /// a multiple of 16.
  [[nodiscard]] Result<> move_pages(void* pool, Bytes page_bytes, const TensorView& moves, StreamHandle stream) const;
  /// Fills whole pages with zeros: pages [n] int64, dense.
  [[nodiscard]] Result<> zero_pages(void* pool, Bytes page_bytes, const TensorView& pages, StreamHandle stream) const;

  [[nodiscard]] const PagedKvOptions& options() const noexcept;
  [[nodiscard]] std::vector<PrepareReport> reports() const;

 private:
  struct State;
  explicit PagedKv(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kernwright
