// A values warpgroup: O += P V for 256 of the 512 columns, and the output.
#pragma once

#include "common/bf16.cuh"
#include "common/mbarrier.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "common/wgmma.cuh"
#include "mla/wgmma_queue.cuh"
#include "mla/wgmma_shared.cuh"

namespace kw::mla {

/// Four lanes of a row hold two columns each of four groups of eight; afterwards lane i of them holds group i whole: a 4 × 4 transposition.
KW_INLINE Vec16 whole_group(const u32 (&mine)[4], int lane_in_row) {
  const bool odd = (lane_in_row & 1) != 0;
  const bool upper = (lane_in_row & 2) != 0;
  const u32 a = shuffle_xor(odd ? mine[0] : mine[1], 1);
  const u32 b = shuffle_xor(odd ? mine[2] : mine[3], 1);
  const u32 low[2] = {odd ? a : mine[0], odd ? mine[1] : a};
  const u32 high[2] = {odd ? b : mine[2], odd ? mine[3] : b};
  const u32 c = shuffle_xor(upper ? low[0] : high[0], 2);
  const u32 d = shuffle_xor(upper ? low[1] : high[1], 2);
  return upper ? Vec16{{c, d, high[0], high[1]}} : Vec16{{low[0], low[1], c, d}};
}

template <class Work>
KW_INLINE void accumulate(const Work& work, const Shared& shared, int half) {
  const int own_row = warp_id() % 4 * 16 + lane_id() / 4;
  RingPlace<stages> ring;
  u32 handed = 0;  // times that a slot of P was handed over
  WorkQueue<typename Work::Item, Shared> queue(shared);
  for (;;) {
    const typename Work::Item item = queue.next();
    if (item.none()) return;
    float output[2][value_columns / 4];  // 128 columns each: one product of 256 is not offered below 154 registers at launch
    bool begun = false;
    KW_UNROLL_BY(1)
    for (u32 left = item.tiles(); left > 0; --left) {
      mbarrier_wait(shared.ready(handed % slots), handed / slots % 2);  // the scoring group has seen the stage full
      const float* factors = shared.factors(handed % slots);
      const float factor[2] = {factors[own_row], factors[own_row + 8]};
      if (begun && any_lane(factor[0] != 1.0f || factor[1] != 1.0f)) {
        KW_UNROLL
        for (int i = 0; i < value_columns / 4; ++i) {
          output[0][i] *= factor[i % 4 / 2];
          output[1][i] *= factor[i % 4 / 2];
        }
      }
      async_proxy_fence();
      const u64 probability = matrix_descriptor<SharedSwizzle::bytes_32, 0, 256>(shared.probability(handed % slots));
      const u64 values = matrix_descriptor<SharedSwizzle::bytes_128, panel_bytes, 1024>(
          shared.stage(ring.slot) + static_cast<u32>(half * value_columns / 64 * panel_bytes));
      wgmma_fence();
      KW_UNROLL
      for (int s = 0; s < block_n / 16; ++s) {
        KW_UNROLL
        for (int c = 0; c < 2; ++c) {
          wgmma_m64n128k16_values(output[c], advance_descriptor(probability, static_cast<u32>(s * probability_panel_bytes)),
                                  advance_descriptor(values, static_cast<u32>(c * 2 * panel_bytes + s * 16 * 128)), begun || s > 0);
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
      mbarrier_arrive(shared.taken(handed % slots));
      mbarrier_arrive(shared.free(ring.slot));
      ring.next();
      ++handed;
      begun = true;
    }
    mbarrier_wait(shared.ready(handed % slots), handed / slots % 2);
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float factor = shared.factors(handed % slots)[own_row + 8 * r];
      const int thread = static_cast<int>(reread_thread_index());  // where it is stored is not worth registers before it is
      const int pair = thread % 4;
      const int half = thread / warpgroup - 2;
      const int target = thread % warpgroup / 32 * 16 + thread % 32 / 4 + 8 * r;
      const bool padding = work.rows(item).padding(target);
      if constexpr (Work::has_partials) {
        if (item.partial()) {
          float* to = work.partial_output(item, target) + half * value_columns + pair * 2;
          KW_UNROLL
          for (int j = 0; j < value_columns / 8; ++j) {
            const float* values = &output[j / 16][j % 16 * 4 + 2 * r];
            const float low = factor == 0.0f ? 0.0f : values[0] * factor;
            const float high = factor == 0.0f ? 0.0f : values[1] * factor;
            if (!padding) store_vector(to + j * 8, Vec8{{__builtin_bit_cast(u32, low), __builtin_bit_cast(u32, high)}});
          }
          continue;
        }
      }
      unsigned char* to = work.rows(item).output(target) + (half * value_columns + pair * 8) * 2;
      KW_UNROLL
      for (int j = 0; j < value_columns / 32; ++j) {
        u32 mine[4];
        KW_UNROLL
        for (int g = 0; g < 4; ++g) {
          const float* values = &output[j / 4][(j % 4 * 4 + g) * 4 + 2 * r];
          mine[g] = factor == 0.0f ? 0u : pack_bf16(values[0] * factor, values[1] * factor);
        }
        const Vec16 group = whole_group(mine, pair);
        if (!padding) store_vector(to + j * 64, group);
      }
    }
    mbarrier_arrive(shared.taken(handed % slots));
    ++handed;
  }
}

}  // namespace kw::mla
