// The merge of partial results. Block blockIdx.x is a slice of the columns of a row: slice fastest, then row, then request. With o_i the
// output of piece i alone and l_i its log2 of the sum of exponentials,
//
//   l = log2 Σ 2^l_i      out = Σ 2^(l_i − l) · o_i
//
// One request over many pieces would be a chain of reads. So a block's threads stand in groups along the pieces:
//
//               columns of the slice, four a thread
//             ├────────────────────────────────────┤
//   group 0    pieces 0, groups, 2 · groups, …          reads_under_way of them, with their l_i, at once
//   group 1    pieces 1, groups + 1, …
//   …
//
// Each group keeps the largest l_i that it has met and its sums in proportion to 2 to the power of that; then the groups of a warp, and
// then the warps, are brought to a common one and added. The order of all sums follows from the pieces' number, slice_bits and the tile.
// Where a request has one piece only, the attention has written its output.
#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/dependent_launch.cuh"
#include "common/math.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_mla/combine_plan.cuh"
#include "paged_mla/partition.cuh"

namespace kw::paged_mla {

constexpr int threads = tile.warps * 32;
constexpr CombineLayout layout = combine_layout(threads);
constexpr int reads_under_way = 8;
/// 896 threads with 72 registers each: 256 of them stand on a multiprocessor of 64 Ki registers beside two blocks of the attention of 16
/// rows, so that the merge of a small batch has started by the time that the attention ends.
constexpr int resident_blocks = maximum(1, 896 / threads);

/// A request's pieces.
struct Pieces {
  u32 first_share;  // piece i is in share first_share + i
  int count;
  int begins_share;  // 1: the request's first tile is also its share's first
  int row;           // of the request
  i64 output;        // the row's place in params.out, in elements

  /// Its slot. All pieces but the first begin where their share does.
  KW_INLINE i64 slot(int i) const { return partial_slot(first_share + static_cast<u32>(i), i > 0 || begins_share != 0); }
};
static_assert(sizeof(Pieces) <= layout.outputs_offset - layout.pieces_offset);

/// Found by thread 0 and left in shared memory, so that all the divisions lie in front of the barrier, and of what is waited for behind it.
KW_INLINE Pieces pieces_of(const CombineParams& params, i64 request, int row) {
  const Sequences& sequences = params.sequences;
  Pieces* found = reinterpret_cast<Pieces*>(dynamic_shared() + layout.pieces_offset);
  const TilesBefore before =
      tiles_before_request<tile.warps>(sequences, request, params.tile_keys, reinterpret_cast<u32*>(dynamic_shared()));
  if (threadIdx.x == 0) {
    const u32 size = tiles_a_share(sequences, before.total, params.shares, params.tile_keys);
    const u32 last = before.request + tiles_of(length_of(sequences, request), params.tile_keys) - 1;
    const u32 first_share = before.request / size;
    const int begins_share = before.request % size == 0 ? 1 : 0;
    const i64 output =
        request * params.out_stride_request + row / params.heads * params.out_stride_token + row % params.heads * params.out_stride_head;
    *found = {first_share, static_cast<int>(last / size - first_share) + 1, begins_share, row, output};
  }
  block_sync();
  return *found;
}

/// A weighted sum of pieces.
struct Merge {
  float reference = -infinity;
  float sum = 0.0f;
  float output[columns_a_thread] = {};

  /// To a reference that is no smaller. Where there is no key yet, the factor is 0.
  KW_INLINE void refer_to(float larger) {
    const float factor = exp2_approx(reference - finite(larger));
    reference = larger;
    sum *= factor;
    KW_UNROLL
    for (int c = 0; c < columns_a_thread; ++c) output[c] *= factor;
  }
  /// `other` refers to what this refers to.
  KW_INLINE void add(float other_sum, const float (&other)[columns_a_thread]) {
    sum += other_sum;
    KW_UNROLL
    for (int c = 0; c < columns_a_thread; ++c) output[c] += other[c];
  }
  static KW_INLINE float finite(float value) { return value == -infinity ? 0.0f : value; }
};

}  // namespace kw::paged_mla

extern "C" __global__ void __launch_bounds__(kw::paged_mla::threads, kw::paged_mla::resident_blocks)
    kw_paged_mla_combine(const __grid_constant__ kw::paged_mla::CombineParams params) {
  using namespace kw;
  using namespace kw::paged_mla;
  if (params.sequences.batch == 0) return;
  launch_dependents();
  const int rows = params.query_tokens * params.heads;
  const u32 row_of_batch = blockIdx.x >> params.slice_bits;
  const i64 request = row_of_batch / static_cast<u32>(rows);
  // Lengths are older than the attention kernel, which lets this one start behind its own wait: they may be read while it runs.
  const Pieces pieces = pieces_of(params, request, static_cast<int>(row_of_batch % static_cast<u32>(rows)));
  wait_for_previous_kernel();
  if (pieces.count == 1) return;

  const int group_bits = row_bits - params.slice_bits;
  const int group_threads = 1 << group_bits;
  const int groups = threads >> group_bits;
  const int group = static_cast<int>(threadIdx.x) >> group_bits;
  const int slice = static_cast<int>(blockIdx.x) & ((1 << params.slice_bits) - 1);
  const int column = (slice << group_bits | (static_cast<int>(threadIdx.x) & (group_threads - 1))) * columns_a_thread;
  const i64 apart = partial_row(partial_slot(static_cast<u32>(groups), true), params.slot_rows, 0);  // of a group's pieces, in rows
  Merge merge;
  for (int first = group; first < pieces.count; first += groups * reads_under_way) {
    Vec16 piece[reads_under_way];
    float logarithm[reads_under_way];
    const i64 partial = partial_row(pieces.slot(first), params.slot_rows, pieces.row);
    const float* from = params.partials.out + partial * columns + column;
    const float* logarithm_from = params.partials.lse + partial;
    KW_UNROLL
    for (int i = 0; i < reads_under_way; ++i) {
      const bool present = first + i * groups < pieces.count;
      piece[i] = present ? load_vector<Vec16>(from) : Vec16{};
      logarithm[i] = present ? *logarithm_from : -infinity;
      // Pieces behind the first begin with their shares.
      const i64 step = i == 0 ? partial_row(pieces.slot(first + groups), params.slot_rows, pieces.row) - partial : apart;
      from += step * columns;
      logarithm_from += step;
    }
    float largest = merge.reference;
    KW_UNROLL
    for (int i = 0; i < reads_under_way; ++i) largest = max_number(largest, logarithm[i]);
    merge.refer_to(largest);
    KW_UNROLL
    for (int i = 0; i < reads_under_way; ++i) {
      const float weight = exp2_approx(logarithm[i] - Merge::finite(largest));
      merge.sum += weight;
      KW_UNROLL
      for (int c = 0; c < columns_a_thread; ++c) {
        merge.output[c] = fused_multiply_add(weight, __builtin_bit_cast(float, piece[i].word[c]), merge.output[c]);
      }
    }
  }

  // The groups of a warp: the same columns are group_threads lanes apart.
  if (group_threads < 32) {
    float largest = merge.reference;
    for (int lanes = 16; lanes >= group_threads; lanes /= 2) largest = max_number(largest, shuffle_xor(largest, lanes));
    merge.refer_to(largest);
    for (int lanes = 16; lanes >= group_threads; lanes /= 2) {
      float other[columns_a_thread];
      KW_UNROLL
      for (int c = 0; c < columns_a_thread; ++c) other[c] = shuffle_xor(merge.output[c], lanes);
      merge.add(shuffle_xor(merge.sum, lanes), other);
    }
  }
  // The warps: what is left of a column is `pitch` threads apart.
  const int pitch = maximum(group_threads, 32);
  if (pitch < threads) {
    PartialMerge* outputs = reinterpret_cast<PartialMerge*>(dynamic_shared() + layout.outputs_offset);
    MergeWeight* weights = reinterpret_cast<MergeWeight*>(dynamic_shared() + layout.weights_offset);
    KW_UNROLL
    for (int c = 0; c < columns_a_thread; ++c) outputs[threadIdx.x].output[c] = merge.output[c];
    weights[threadIdx.x] = {merge.reference, merge.sum};
    block_sync();
    if (static_cast<int>(threadIdx.x) >= group_threads) return;
    float largest = merge.reference;
    for (int other = static_cast<int>(threadIdx.x) + pitch; other < threads; other += pitch) {
      largest = max_number(largest, weights[other].reference);
    }
    merge.refer_to(largest);
    for (int other = static_cast<int>(threadIdx.x) + pitch; other < threads; other += pitch) {
      Merge part{weights[other].reference, weights[other].sum, {}};
      KW_UNROLL
      for (int c = 0; c < columns_a_thread; ++c) part.output[c] = outputs[other].output[c];
      part.refer_to(largest);
      merge.add(part.sum, part.output);
    }
  }
  if (static_cast<int>(threadIdx.x) >= group_threads) return;

  const bool empty = merge.sum == 0.0f;  // a piece that is not a number is not empty, and the largest of the others counts 1
  const float factor = empty ? 0.0f : 1.0f / merge.sum;
  unsigned char* to = static_cast<unsigned char*>(params.out) + (pieces.output + column) * 2;
  store_vector(to, Vec8{{pack_bf16(merge.output[0] * factor, merge.output[1] * factor),
                         pack_bf16(merge.output[2] * factor, merge.output[3] * factor)}});
  if (params.lse != nullptr && column == 0) {
    params.lse[row_of_batch] = empty ? infinity : (merge.reference + log2_approx(merge.sum)) * log_2;
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
