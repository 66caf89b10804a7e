// The merge of partial results: block blockIdx.x is row blockIdx.x mod rows of request blockIdx.x / rows. With o_i the output of piece i
// alone and l_i its log2 of the sum of exponentials,
//
//   l = log2 Σ 2^l_i      out = Σ 2^(l_i − l) · o_i
//
// in the order of the pieces within each part of the block's threads, and of the parts. One request over many pieces is a chain of reads:
// parts and reads under way are what shortens it. Where a request has one piece only, the attention has written its output.
#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/block_reduce.cuh"
#include "common/dependent_launch.cuh"
#include "common/math.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_mla/combine_plan.cuh"
#include "paged_mla/partition.cuh"

namespace kw::paged_mla {

constexpr int reads_under_way = 16;

/// The shares that a request's tiles fall into.
struct Pieces {
  u32 first_share;
  int count;
  bool begins_share;  // the request's first tile is also its share's first

  /// Piece i is in share first_share + i; all but the first begin where their share does.
  KW_INLINE i64 slot(int i) const { return partial_slot(first_share + static_cast<u32>(i), i > 0 || begins_share); }
};

KW_INLINE Pieces pieces_of(const CombineParams& params, i64 request, u32* scratch) {
  const Sequences& sequences = params.sequences;
  const u32 begin = tiles_before<tile.warps>(sequences, request, params.tile_keys, scratch);
  const u32 total = tiles_before<tile.warps>(sequences, sequences.batch, params.tile_keys, scratch);
  const u32 size = tiles_a_share(sequences, total, params.shares, params.tile_keys);
  const u32 last = begin + tiles_of(length_of(sequences, request), params.tile_keys) - 1;
  return {begin / size, static_cast<int>(last / size - begin / size) + 1, begin % size == 0};
}

}  // namespace kw::paged_mla

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_mla_combine(const __grid_constant__ kw::paged_mla::CombineParams params) {
  using namespace kw;
  using namespace kw::paged_mla;
  if (params.sequences.batch == 0) return;
  const int rows = params.query_tokens * params.heads;
  const i64 request = blockIdx.x / static_cast<u32>(rows);
  const int row = static_cast<int>(blockIdx.x % static_cast<u32>(rows));
  // Lengths are older than the attention kernel: they may be read while it runs.
  const Pieces pieces = pieces_of(params, request, reinterpret_cast<u32*>(dynamic_shared()));
  wait_for_previous_kernel();
  if (pieces.count == 1) return;

  const int row_tiles = ceil_div(rows, params.tile_rows);
  const auto partial = [&](int i) { return partial_row(pieces.slot(i), row_tiles, params.tile_rows, row); };
  float largest = -infinity;
  for (int i = lane_id(); i < pieces.count; i += 32) largest = max_number(largest, params.partials.lse[partial(i)]);
  largest = reduce_lanes<32>(largest, [](float a, float b) { return max_number(a, b); });
  const bool empty = largest == -infinity;
  const float reference = empty ? 0.0f : largest;

  constexpr int parts = tile.warps * 32 / threads_a_part;
  const int part = static_cast<int>(threadIdx.x) / threads_a_part;
  const int column = static_cast<int>(threadIdx.x) % threads_a_part * columns_a_thread;
  const int pieces_a_part = ceil_div(pieces.count, parts);
  const int end = minimum(pieces.count, (part + 1) * pieces_a_part);
  float sum = 0.0f;
  float output[columns_a_thread] = {};
  for (int first = part * pieces_a_part; first < end; first += reads_under_way) {
    Vec16 piece[reads_under_way];
    KW_UNROLL
    for (int i = 0; i < reads_under_way; ++i) {
      piece[i] = first + i < end ? load_vector<Vec16>(params.partials.out + partial(first + i) * columns + column) : Vec16{};
    }
    const int own = first + lane_id();
    const float weight_of_lane =
        lane_id() < reads_under_way && own < end ? exp2_approx(params.partials.lse[partial(own)] - reference) : 0.0f;
    KW_UNROLL
    for (int i = 0; i < reads_under_way; ++i) {
      const float weight = shuffle(weight_of_lane, i);
      sum += weight;
      KW_UNROLL
      for (int c = 0; c < columns_a_thread; ++c) {
        output[c] = fused_multiply_add(weight, __builtin_bit_cast(float, piece[i].word[c]), output[c]);
      }
    }
  }
  if constexpr (parts > 1) {
    PartSums* others = reinterpret_cast<PartSums*>(dynamic_shared() + combine_scratch_bytes);
    if (part > 0) {
      KW_UNROLL
      for (int c = 0; c < columns_a_thread; ++c) others[part - 1].output[column + c] = output[c];
      if (column == 0) others[part - 1].weight = sum;
    }
    block_sync();
    if (part > 0) return;
    KW_UNROLL
    for (int other = 0; other < parts - 1; ++other) {
      sum += others[other].weight;
      KW_UNROLL
      for (int c = 0; c < columns_a_thread; ++c) output[c] += others[other].output[column + c];
    }
  }
  const float factor = empty ? 0.0f : 1.0f / sum;
  const i64 token = row / params.heads;
  const i64 head = row % params.heads;
  unsigned char* to = static_cast<unsigned char*>(params.out) +
                      (request * params.out_stride_request + token * params.out_stride_token + head * params.out_stride_head + column) * 2;
  store_vector(to, Vec8{{pack_bf16(output[0] * factor, output[1] * factor), pack_bf16(output[2] * factor, output[3] * factor)}});
  if (params.lse != nullptr && threadIdx.x == 0) {
    params.lse[request * rows + row] = empty ? infinity : (largest + log2_approx(sum)) * log_2;
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
