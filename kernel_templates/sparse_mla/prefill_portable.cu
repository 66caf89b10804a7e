// Sparse MLA prefill without tensor cores: the oracle of the other variants, for any device and for host.
//
// One tile of keys at a time, four steps with a barrier between them:
//   gather   the tile's rows into shared memory, zeros for empty slots
//   scores   each thread some (row, key) pairs
//   softmax  thread r all of row r
//   values   each thread its own columns of every row, in registers
#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/shared_memory.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/prefill_keys.cuh"
#include "sparse_mla/prefill_plan.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/prefill_softmax.cuh"

namespace kw::sparse_mla {

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

}  // namespace kw::sparse_mla

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads)
    kw_sparse_mla_prefill(const __grid_constant__ kw::sparse_mla::PrefillParams params) {
  using namespace kw;
  using namespace kw::sparse_mla;
  if (params.tokens == 0) return;

  constexpr int block_m = tile.block_m;
  constexpr int block_n = tile.block_n;
  constexpr int threads = layout.threads;
  constexpr int words = d_v / threads / 2;  // pairs of output columns of one thread
  static_assert(words >= 1);

  unsigned char* shared = dynamic_shared();
  unsigned char* queries = shared + layout.query_offset;
  unsigned char* keys = shared + layout.key_offset;
  float* probabilities = reinterpret_cast<float*>(shared + layout.probability_offset);  // [key][row]
  u32* owners = reinterpret_cast<u32*>(shared + layout.owners_offset);
  float* row_factor = reinterpret_cast<float*>(shared + layout.row_offset);  // α of the tile, at the end the output's factor
  float* row_empty = row_factor + block_m;

  const int thread = static_cast<int>(threadIdx.x);
  const BlockRows block = block_rows(params, blockIdx.x);
  const KeyList list = key_list(params, block);
  const float scale_log2 = params.sm_scale * log2_e;

  for (int i = thread; i < block_m * layout.chunks; i += threads) {
    const int r = i / layout.chunks;
    const int chunk = i % layout.chunks;
    const unsigned char* from = query_row(params, block.row(r));
    store_vector(queries + r * layout.row_bytes + chunk * 16, from == nullptr ? Vec16{} : load_vector<Vec16>(from + chunk * 16));
  }

  float max_log2 = initial_max;  // of row `thread`
  float sum = 0.0f;
  float output[block_m][2 * words] = {};

  for (int first = 0; first < list.count; first += block_n) {
    block_sync();
    for (int i = thread; i < block_n * layout.chunks; i += threads) {
      const int n = i / layout.chunks;
      const int chunk = i % layout.chunks;
      const Key key = list.key(first + n);
      store_vector(keys + n * layout.row_bytes + chunk * 16,
                   key.owners == 0 ? Vec16{} : load_vector<Vec16>(key_row(params, key.row) + chunk * 16));
      if (chunk == 0) owners[n] = key.owners;
    }
    block_sync();

    for (int i = thread; i < block_m * block_n; i += threads) {
      const int r = i / block_n;
      const int n = i % block_n;
      const bool owned = (owners[n] >> BlockRows::token_in_group(r) & 1u) != 0;
      const float product = dot(queries + r * layout.row_bytes, keys + n * layout.row_bytes);
      probabilities[n * block_m + r] = masked_score(product, scale_log2, owned);
    }
    block_sync();

    if (thread < block_m) {
      float* column = probabilities + thread;
      float new_max = max_log2;
      for (int n = 0; n < block_n; ++n) new_max = max_number(new_max, column[n * block_m]);
      const float alpha = exp2_approx(max_log2 - new_max);
      sum *= alpha;
      for (int n = 0; n < block_n; ++n) {
        const float p = exp2_approx(column[n * block_m] - new_max);
        sum += p;
        column[n * block_m] = to_float(to_bf16(p));
      }
      max_log2 = new_max;
      row_factor[thread] = alpha;
    }
    block_sync();

    KW_UNROLL
    for (int r = 0; r < block_m; ++r) {
      const float alpha = row_factor[r];
      KW_UNROLL
      for (int c = 0; c < 2 * words; ++c) output[r][c] *= alpha;
    }
    for (int n = 0; n < block_n; ++n) {
      float value[2 * words];
      KW_UNROLL
      for (int w = 0; w < words; ++w) {
        const u32 pair = reinterpret_cast<const u32*>(keys + n * layout.row_bytes)[thread * words + w];
        value[2 * w] = low_float(pair);
        value[2 * w + 1] = high_float(pair);
      }
      KW_UNROLL
      for (int r = 0; r < block_m; ++r) {
        const float p = probabilities[n * block_m + r];
        KW_UNROLL
        for (int c = 0; c < 2 * words; ++c) output[r][c] = fused_multiply_add(p, value[c], output[r][c]);
      }
    }
  }

  block_sync();
  if (thread < block_m) {
    const RowScale scale = finish_row(params, block.row(thread), max_log2, sum, max_log2, true);
    row_factor[thread] = scale.factor;
    row_empty[thread] = scale.empty ? 1.0f : 0.0f;
  }
  block_sync();
  KW_UNROLL
  for (int r = 0; r < block_m; ++r) {
    const Row row = block.row(r);
    if (row.padding) continue;
    const float factor = row_factor[r];
    const bool empty = row_empty[r] != 0.0f;
    u32* to = reinterpret_cast<u32*>(output_row(params, row)) + thread * words;
    KW_UNROLL
    for (int w = 0; w < words; ++w) to[w] = empty ? 0u : pack_bf16(output[r][2 * w] * factor, output[r][2 * w + 1] * factor);
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
