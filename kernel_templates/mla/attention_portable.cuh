// Attention of block_m rows over a list of keys without tensor cores: the oracle of the other variants, for any device and for host.
//
// One tile of keys at a time, four steps with a barrier between them:
//   gather   the tile's rows into shared memory, zeros for empty slots
//   scores   each thread some (row, key) pairs
//   softmax  thread r all of row r
//   values   each thread its own columns of every row, in registers
//
// `Rows` is described in mla/attention_mma.cuh, `Keys` in mla/gather.cuh.
#pragma once

#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/shared_memory.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/softmax.cuh"
#include "mla/tile_layout.cuh"

namespace kw::mla {

constexpr TileLayout layout = tile_layout(specialisation.d_qk, tile);
static_assert(layout.legal, "make_plan answers threads = 0 for this tile");
static_assert(specialisation.dtype == DType::bf16);

constexpr int block_m = tile.block_m;
constexpr int block_n = tile.block_n;
constexpr int words = d_v / layout.threads / 2;  // pairs of output columns of one thread
static_assert(words >= 1);

/// fp32 sum of products of two rows of bf16 in shared memory: eight partial sums in ascending order, then a fixed tree.
KW_INLINE float dot(const unsigned char* a, const unsigned char* b) {
  float sum[8] = {};
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const Vec16 x = load_vector<Vec16>(a + chunk * 16);
    const Vec16 y = load_vector<Vec16>(b + chunk * 16);
    KW_UNROLL
    for (int i = 0; i < 4; ++i) {
      sum[2 * i] = fused_multiply_add(low_float(x.word[i]), low_float(y.word[i]), sum[2 * i]);
      sum[2 * i + 1] = fused_multiply_add(high_float(x.word[i]), high_float(y.word[i]), sum[2 * i + 1]);
    }
  }
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/// Where the parts of mla/tile_layout.cuh are.
struct SharedParts {
  unsigned char* queries;
  unsigned char* keys;
  float* probabilities;  // [key][row]
  u32* owners;
  float* row_factor;  // α of the tile, at the end the output's factor
  float* row_empty;

  explicit KW_INLINE SharedParts(unsigned char* shared)
      : queries(shared + layout.query_offset),
        keys(shared + layout.key_offset),
        probabilities(reinterpret_cast<float*>(shared + layout.probability_offset)),
        owners(reinterpret_cast<u32*>(shared + layout.owners_offset)),
        row_factor(reinterpret_cast<float*>(shared + layout.row_offset)),
        row_empty(row_factor + block_m) {}
};

struct RunningRows {
  float output[block_m][2 * words] = {};  // this thread's columns of every row
  float max_log2 = initial_max;           // of row `thread`
  float sum = 0.0f;
};

/// Runs over all keys. Every thread of the block comes here, and none still reads the block's shared memory.
template <class Rows, class Keys>
KW_INLINE void attend(const Rows& rows, const Keys& list, float scale_log2, const SharedParts& shared, RunningRows& running) {
  constexpr int threads = layout.threads;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < block_m * layout.chunks; i += threads) {
    const int r = i / layout.chunks;
    const int chunk = i % layout.chunks;
    store_vector(shared.queries + r * layout.row_bytes + chunk * 16,
                 rows.padding(r) ? Vec16{} : load_vector<Vec16>(rows.query(r) + chunk * 16));
  }

  for (int first = list.first; first < list.first + list.count; first += block_n) {
    block_sync();
    for (int i = thread; i < block_n * layout.chunks; i += threads) {
      const int n = i / layout.chunks;
      const int chunk = i % layout.chunks;
      const typename Keys::Key key = list.key(first + n);
      store_vector(shared.keys + n * layout.row_bytes + chunk * 16,
                   key.owners == 0 ? Vec16{} : load_vector<Vec16>(list.address(key.row) + chunk * 16));
      if (chunk == 0) shared.owners[n] = key.owners;
    }
    block_sync();

    for (int i = thread; i < block_m * block_n; i += threads) {
      const int r = i / block_n;
      const int n = i % block_n;
      const bool owned = (shared.owners[n] >> rows.token(r) & 1u) != 0;
      const float product = dot(shared.queries + r * layout.row_bytes, shared.keys + n * layout.row_bytes);
      shared.probabilities[n * block_m + r] = masked_score(product, scale_log2, owned);
    }
    block_sync();

    if (thread < block_m) {
      float* column = shared.probabilities + thread;
      float new_max = running.max_log2;
      for (int n = 0; n < block_n; ++n) new_max = max_number(new_max, column[n * block_m]);
      const float alpha = exp2_approx(running.max_log2 - new_max);
      running.sum *= alpha;
      for (int n = 0; n < block_n; ++n) {
        const float p = exp2_approx(column[n * block_m] - new_max);
        running.sum += p;
        column[n * block_m] = to_float(to_bf16(p));
      }
      running.max_log2 = new_max;
      shared.row_factor[thread] = alpha;
    }
    block_sync();

    KW_UNROLL
    for (int r = 0; r < block_m; ++r) {
      const float alpha = shared.row_factor[r];
      KW_UNROLL
      for (int c = 0; c < 2 * words; ++c) running.output[r][c] *= alpha;
    }
    for (int n = 0; n < block_n; ++n) {
      float value[2 * words];
      KW_UNROLL
      for (int w = 0; w < words; ++w) {
        const u32 pair = reinterpret_cast<const u32*>(shared.keys + n * layout.row_bytes)[thread * words + w];
        value[2 * w] = low_float(pair);
        value[2 * w + 1] = high_float(pair);
      }
      KW_UNROLL
      for (int r = 0; r < block_m; ++r) {
        const float p = shared.probabilities[n * block_m + r];
        KW_UNROLL
        for (int c = 0; c < 2 * words; ++c) running.output[r][c] = fused_multiply_add(p, value[c], running.output[r][c]);
      }
    }
  }
}

/// Behind attend(): what finish() makes of each row goes to every thread, as row_factor and row_empty.
template <class Finish>
KW_INLINE void share_row_scales(const SharedParts& shared, const RunningRows& running, Finish finish) {
  const int thread = static_cast<int>(threadIdx.x);
  block_sync();
  if (thread < block_m) {
    const RowScale scale = finish(thread, running.max_log2, running.sum);
    shared.row_factor[thread] = scale.factor;
    shared.row_empty[thread] = scale.empty ? 1.0f : 0.0f;
  }
  block_sync();
}

/// Behind attend(): scales the rows and stores them as bf16.
template <class Rows>
KW_INLINE void store_rows(const Rows& rows, const SharedParts& shared, const RunningRows& running) {
  share_row_scales(shared, running, [&](int r, float reference, float sum) { return rows.finish(r, reference, sum, true); });
  const int thread = static_cast<int>(threadIdx.x);
  KW_UNROLL
  for (int r = 0; r < block_m; ++r) {
    if (rows.padding(r)) continue;
    const float factor = shared.row_factor[r];
    const bool empty = shared.row_empty[r] != 0.0f;
    u32* to = reinterpret_cast<u32*>(rows.output(r)) + thread * words;
    KW_UNROLL
    for (int w = 0; w < words; ++w) {
      to[w] = empty ? 0u : pack_bf16(running.output[r][2 * w] * factor, running.output[r][2 * w + 1] * factor);
    }
  }
}

}  // namespace kw::mla
