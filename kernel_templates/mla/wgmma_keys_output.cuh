// What is written of a finished item where keys are rows of products: its statistics, and Oᵀ turned into rows of the output.
#pragma once

#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/cp_async.cuh"
#include "common/mbarrier.cuh"
#include "common/stmatrix.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "mla/softmax.cuh"
#include "mla/wgmma_keys_shared.cuh"
#include "mla/wgmma_keys_softmax.cuh"

namespace kw::mla {

constexpr int output_row_bytes = d_v * 2;
static_assert(block_heads * output_row_bytes <= stage_bytes, "the output leaves through a stage");

/// What O is multiplied by, for each of the thread's heads; 0 for heads without a key. Once every warp has come here, no product is under
/// way.
template <class Work>
KW_INLINE void finish_heads(const Work& work, const typename Work::Item& item, const Shared& shared, int warp, const RunningHeads& running,
                            float (&factor)[thread_heads]) {
  KW_UNROLL
  for (int h = 0; h < thread_heads; ++h) {
    const float sum = reduce_keys(running.sum[h], [](float a, float b) { return a + b; });
    const float largest = reduce_keys(running.largest[h], [](float a, float b) { return max_number(a, b); });
    if (lane_id() < 4) {
      shared.sums(warp)[block_head(h)] = sum;
      shared.maxima(warp)[block_head(h)] = largest;
    }
  }
  named_barrier_sync(computing_barrier, warpgroup);
  const bool writes = warp == 0 && lane_id() < 4;
  KW_UNROLL
  for (int h = 0; h < thread_heads; ++h) {
    float sum = 0.0f;
    float largest = -infinity;
    KW_UNROLL
    for (int w = 0; w < computing_warps; ++w) {
      sum += shared.sums(w)[block_head(h)];
      largest = max_number(largest, shared.maxima(w)[block_head(h)]);
    }
    const RowScale scale = work.finish(item, block_head(h), running.reference[h], sum, largest, writes);
    factor[h] = scale.empty ? 0.0f : scale.factor;
  }
}

/// O into the stage's memory, a head in a row of 1 KiB: 16-byte piece c of row r at place c xor r mod 8.
KW_INLINE void stage_output(SharedAddress stage, int warp, const Output& output, const float (&factor)[thread_heads]) {
  const int lane = lane_id();
  const auto pair = [&](int panel, int element) {  // of heads; 0 whatever O holds where the factor is 0
    const float low = factor[head_of(element)];
    const float high = factor[head_of(element + 1)];
    return pack_bf16(low == 0.0f ? 0.0f : output[panel][element] * low, high == 0.0f ? 0.0f : output[panel][element + 1] * high);
  };
  KW_UNROLL
  for (int j = 0; j < elements; j += 4) {
    const SharedAddress row = stage + static_cast<u32>((j * 2 + lane % 8) * output_row_bytes);
    KW_UNROLL
    for (int p = 0; p < value_panels; p += 2) {
      const u32 fragment[4] = {pair(p, j), pair(p, j + 2), pair(p + 1, j), pair(p + 1, j + 2)};
      const int piece = (p + lane / 16) * 8 + warp * 2 + lane / 8 % 2;
      stmatrix_x4_transposed(row + static_cast<u32>((piece ^ (lane % 8)) * 16), fragment);
    }
  }
}

/// From there to global memory, whole rows at a time; zeros where nothing was staged.
template <class Rows>
KW_INLINE void write_output(const Rows& rows, const unsigned char* staged, bool empty) {
  constexpr int pieces = output_row_bytes / 16;
  const int thread = static_cast<int>(reread_thread_index()) % warpgroup;
  KW_UNROLL_BY(4)
  for (int i = thread; i < block_heads * pieces; i += warpgroup) {
    const int r = i / pieces;
    const int piece = i % pieces;
    if (rows.padding(r)) continue;
    const Vec16 value = empty ? Vec16{} : load_vector<Vec16>(staged + r * output_row_bytes + (piece ^ (r % 8)) * 16);
    store_vector(rows.output(r) + piece * 16, value);
  }
}

/// The partial results of a piece, in fp32: eight lanes write 32 bytes of a head together.
template <class Work>
KW_INLINE void write_partial(const Work& work, const typename Work::Item& item, int warp, const Output& output,
                             const float (&factor)[thread_heads]) {
  const auto rows = work.rows(item);
  KW_UNROLL
  for (int h = 0; h < thread_heads; ++h) {
    if (rows.padding(block_head(h))) continue;
    float* to = work.partial_output(item, block_head(h)) + warp * 16 + lane_id() / 4;
    KW_UNROLL
    for (int p = 0; p < value_panels; ++p) {
      KW_UNROLL
      for (int below = 0; below < 2; ++below) {
        const float value = output[p][h / 2 * 4 + below * 2 + h % 2];
        to[p * 64 + below * 8] = factor[h] == 0.0f ? 0.0f : value * factor[h];
      }
    }
  }
}

}  // namespace kw::mla
