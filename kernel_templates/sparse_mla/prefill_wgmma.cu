// Sparse MLA prefill on Hopper's warpgroup products (sm_90a): 64 rows of Q against tiles of 32 keys, persistent blocks, one an SM.
//
// Four warpgroups, each with one job, pass tiles along through shared memory:
//
//   gather   32 kv rows and their owners by 16-byte cp.async into a ring of `stages`              ── full  ──▶ scores, values
//   scores   S = Q Kᵀ with five of Q's panels of 64 columns in registers, softmax, P              ── ready ──▶ values
//   values   two of them: O += P V, 256 of the 512 columns each, accumulators in registers        ── free  ──▶ gather, scores
//
// K and V are the same rows, fetched once. S is summed in four chains of products, two of them under way at a time, and the softmax begins
// when all four are added. A tile is handed to the values groups only after the scores of the next one, so that its P V runs during that
// softmax and not beside the products; P has two slots for that. A panel of Q in registers is not read from shared memory for every tile:
// with all of Q there, those reads would be the bottleneck. For the others (4 at d_qk 576, 3 at 512) there are no registers left.
//
// Running maximum: the sums refer to a row's maximum of some time ago. It is moved, and O rescaled, only where a score exceeds it by more
// than 8 (in base 2): p stays below 2^8, where bf16 is as fine as below 1, and after the first tiles O is never touched between products.
//
// Shared memory: stages of panels (64 columns: 32 rows × 128 bytes, 128-byte swizzle: 16-byte piece c of row r at place c xor r mod 8),
// then Q's other panels (64 rows × 128 bytes each, same swizzle), P's slots (64 rows × 64 bytes, 64-byte swizzle: piece c at
// c xor r / 2 mod 4), a factor for each row of a slot, owners of a stage's keys, mbarriers.
#include "common/atomics.cuh"
#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/cp_async.cuh"
#include "common/dependent_launch.cuh"
#include "common/math.cuh"
#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/stmatrix.cuh"
#include "common/warp.cuh"
#include "common/wgmma.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/prefill_keys.cuh"
#include "sparse_mla/prefill_plan.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/prefill_softmax.cuh"

namespace kw::sparse_mla {

constexpr int block_m = tile.block_m;
constexpr int block_n = tile.block_n;
constexpr int stages = tile.stages;
constexpr int slots = wgmma_probability_slots;
static_assert(slots == 2);
constexpr int panels = layout.chunks / 8;               // of 64 columns
constexpr int register_panels = wgmma_register_panels;  // of Q; the others in shared memory
constexpr int shared_panels = panels - register_panels;
constexpr int query_panel_bytes = block_m * 128;
constexpr int panel_bytes = block_n * 128;  // of a stage
constexpr int stage_bytes = panels * panel_bytes;
constexpr int slot_bytes = block_m * layout.probability_bytes;
constexpr int warpgroup = 128;
constexpr int value_columns = d_v / 2;     // of one value warpgroup
constexpr float rescale_threshold = 8.0f;  // in base 2
constexpr int scores_barrier = 1;          // named barrier of the scoring warpgroup
constexpr int work_slots = wgmma_work_slots;

// Registers a thread: 128 at launch, moved to where the accumulators and Q are. 32 + 160 + 2 · 160 = 4 · 128.
constexpr u32 gather_registers = 32;
constexpr u32 scores_registers = 160;
constexpr u32 values_registers = 160;  // ptxas needs 154 for an instruction with 128 accumulators

/// One arrival for the warp, behind what its lanes did. 128 arrivals at one barrier would keep the shared memory pipe busy.
KW_INLINE void warp_arrive(SharedAddress barrier) {
  warp_sync();
  if (lane_id() == 0) mbarrier_arrive(barrier);
}

/// A (group, head tile) and how many slots of its list are to be looked at. No item: there is no more work.
struct WorkItem {
  static constexpr u32 none = 0xFFFFFFFFu;
  u32 index;
  u32 slots;
  KW_INLINE u32 tiles() const { return ceil_div(slots, static_cast<u32>(block_n)); }
};

/// Where everything stands, by address.
struct Shared {
  SharedAddress base;
  unsigned char* bytes;

  KW_INLINE SharedAddress stage(u32 slot) const { return base + slot * stage_bytes; }
  KW_INLINE SharedAddress query() const { return base + static_cast<u32>(layout.query_offset); }
  KW_INLINE SharedAddress probability(u32 slot) const { return base + static_cast<u32>(layout.probability_offset) + slot * slot_bytes; }
  KW_INLINE unsigned char* probability_bytes(u32 slot) const { return bytes + layout.probability_offset + slot * slot_bytes; }
  KW_INLINE float* factors(u32 slot) const { return reinterpret_cast<float*>(bytes + layout.row_offset) + slot * block_m; }
  KW_INLINE u32* owners(u32 stage) const { return reinterpret_cast<u32*>(bytes + layout.owners_offset) + stage * block_n; }
  KW_INLINE SharedAddress full(u32 slot) const { return barrier(slot); }
  KW_INLINE SharedAddress free(u32 slot) const { return barrier(stages + slot); }
  KW_INLINE SharedAddress ready(u32 slot) const { return barrier(2 * stages + slot); }
  KW_INLINE SharedAddress taken(u32 slot) const { return barrier(2 * stages + slots + slot); }
  KW_INLINE SharedAddress work_full(u32 slot) const { return barrier(2 * stages + 2 * slots + slot); }
  KW_INLINE SharedAddress work_free(u32 slot) const { return barrier(2 * stages + 2 * slots + work_slots + slot); }
  KW_INLINE WorkItem* work(u32 slot) const { return reinterpret_cast<WorkItem*>(bytes + layout.work_offset) + slot; }

 private:
  KW_INLINE SharedAddress barrier(u32 index) const { return base + static_cast<u32>(layout.barrier_offset) + index * mbarrier_bytes; }
};

/// Slots up to the last one that is not empty: the rows of a prompt's first tokens end in empty slots. By a whole warp.
KW_INLINE u32 used_slots(const KeyList& list) {
  if constexpr (!per_token) return static_cast<u32>(list.count);
  constexpr int reads = 16;  // on their way at once
  for (int end = list.count; end > 0; end -= 32 * reads) {
    u32 used = 0;
    KW_UNROLL
    for (int i = 0; i < reads; ++i) {
      const int slot = end - 1 - i * 32 - lane_id();
      if (slot >= 0 && static_cast<u32>(list.rows[slot]) < list.limit) used = maximum(used, static_cast<u32>(slot) + 1);
    }
    used = reduce_lanes<32>(used, [](u32 a, u32 b) { return maximum(a, b); });
    if (used != 0) return used;
  }
  return 0;
}

/// The (group, head tile)s, from the last to the first: later groups of a prompt are the longer ones. A block takes the next one when it
/// has room for it, so that blocks finish together whatever the lengths are. One warp of the gathering warpgroup takes, one item ahead;
/// every warp reads.
class WorkQueue {
 public:
  KW_INLINE WorkQueue(const PrefillParams& params, const Shared& shared) : params_(params), shared_(shared) {}

  /// By one warp, before anyone reads. What follows from the parameters is computed where it is needed: registers are short.
  KW_INLINE void take_first() const { put(0, blockIdx.x); }
  /// By the same warp, behind its next(): the item after that.
  KW_INLINE void take_another() const {
    const u32 item = shared_.work((count_ - 1) % work_slots)->index;
    u32 taken = items() - 1 - item + gridDim.x;
    if (params_.next_work != nullptr) {
      if (lane_id() == 0) taken = gridDim.x + atomic_add_global(params_.next_work, 1u);
      taken = shuffle(taken, 0);
    }
    mbarrier_wait(shared_.work_free(count_ % work_slots), count_ / work_slots % 2 ^ 1u);
    put(count_ % work_slots, taken);
  }
  /// By whole warps.
  KW_INLINE WorkItem next() {
    mbarrier_wait(shared_.work_full(count_ % work_slots), count_ / work_slots % 2);
    const WorkItem item = *shared_.work(count_ % work_slots);
    warp_arrive(shared_.work_free(count_ % work_slots));
    ++count_;
    return item;
  }

 private:
  KW_INLINE u32 items() const {
    return static_cast<u32>((params_.tokens + specialisation.group_size - 1) / specialisation.group_size) * layout.head_tiles;
  }
  KW_INLINE void put(u32 slot, u32 taken) const {
    WorkItem item{WorkItem::none, 0};
    if (taken < items()) {
      item.index = items() - 1 - taken;
      item.slots = used_slots(key_list(params_, block_rows(params_, item.index)));
    }
    if (lane_id() == 0) *shared_.work(slot) = item;
    warp_arrive(shared_.work_full(slot));
  }

  const PrefillParams& params_;
  const Shared& shared_;
  u32 count_ = 0;  // items read
};

// ---- gather -----------------------------------------------------------------------------------------------------------------------------

/// Eight threads a row, each a 16-byte piece of every panel: a warp's copy reads whole 128-byte lines of four rows.
KW_INLINE void gather(const PrefillParams& params, const Shared& shared) {
  constexpr int half = block_n / 2;
  RingPlace<stages> ring;
  WorkQueue queue(params, shared);
  if (warp_id() == 0) queue.take_first();
  for (;;) {
    const WorkItem item = queue.next();
    if (item.index == WorkItem::none) return;
    if (warp_id() == 0) queue.take_another();
    const int thread = static_cast<int>(reread_thread_index()) % warpgroup;
    const int piece = thread % 8;
    const int row = thread / 8;                                                // and 16 below
    const u32 place = static_cast<u32>(row * 128 + (piece ^ (row % 8)) * 16);  // the same swizzle for both rows: 16 is a multiple of 8
    KeyList list = key_list(params, block_rows(params, item.index));
    list.count = static_cast<int>(item.slots);
    list.skip(row);
    Key keys[2] = {list.key(0), list.key(half)};
    while (list.count + row > 0) {  // the same for all threads
      mbarrier_wait(shared.free(ring.slot), ring.round ^ 1u);
      const SharedAddress stage = shared.stage(ring.slot) + place;
      KW_UNROLL
      for (int r = 0; r < 2; ++r) {
        const bool owned = keys[r].owners != 0;
        if (piece == 0) shared.owners(ring.slot)[row + r * half] = keys[r].owners;
        const unsigned char* from = key_row(params, owned ? keys[r].row : 0) + piece * 16;
        const u32 bytes = owned ? 16u : 0u;
        KW_UNROLL
        for (int p = 0; p < panels; ++p) cp_async_16(stage + static_cast<u32>(p * panel_bytes + r * half * 128), from + p * 128, bytes);
      }
      mbarrier_arrive_after_copies(shared.full(ring.slot));
      warp_arrive(shared.full(ring.slot));  // the owners
      ring.next();
      list.skip(block_n);
      KW_UNROLL
      for (int r = 0; r < 2; ++r) keys[r] = list.key(r * half);  // on its way while the next stage is waited for
    }
  }
}

// ---- scores -----------------------------------------------------------------------------------------------------------------------------

/// What a thread of the scoring warpgroup holds of Q: rows `row` and `row` + 8 of the block.
struct QueryRegisters {
  u32 step[register_panels * 4][4];
};

/// The query of a row; of the block's first row where it is padding, whose scores nobody looks at.
KW_INLINE const unsigned char* query_row_or_first(const PrefillParams& params, const BlockRows& block, int r) {
  const Row row = block.row(r);
  return query_row(params, row.padding ? block.row(0) : row);
}

KW_INLINE void load_query(const PrefillParams& params, const BlockRows& block, const Shared& shared, int row, int pair,
                          QueryRegisters& query) {
  const unsigned char* rows[2] = {query_row_or_first(params, block, row), query_row_or_first(params, block, row + 8)};
  KW_UNROLL
  for (int s = 0; s < register_panels * 4; ++s) {
    KW_UNROLL
    for (int e = 0; e < 4; ++e) query.step[s][e] = *reinterpret_cast<const u32*>(rows[e % 2] + s * 32 + e / 2 * 16 + pair * 4);
  }
  // All warps are past the products that read the shared panels before.
  named_barrier_sync(scores_barrier, warpgroup);
  unsigned char* panel = shared.bytes + layout.query_offset;
  const int thread = static_cast<int>(threadIdx.x) % warpgroup;
  KW_UNROLL_BY(1)
  for (int i = 0; i < block_m * 8 / warpgroup; ++i) {
    const int r = (i * warpgroup + thread) / 8;
    const int piece = thread % 8;
    const unsigned char* from = query_row_or_first(params, block, r);
    KW_UNROLL
    for (int p = 0; p < shared_panels; ++p) {
      const Vec16 value = load_vector<Vec16>(from + (register_panels + p) * 128 + piece * 16);
      store_vector(panel + p * query_panel_bytes + r * 128 + (piece ^ (r % 8)) * 16, value);
    }
  }
  async_proxy_fence();
  named_barrier_sync(scores_barrier, warpgroup);
}

constexpr int steps = layout.chunks / 2;  // of 16 columns of Q and K
constexpr int chains = 4;
static_assert(steps % chains == 0);
using Products = float[block_n / 2];

KW_INLINE void multiply_step(const Shared& shared, u64 keys, const QueryRegisters& query, int step, Products& products, bool accumulate) {
  const u64 key = advance_descriptor(keys, static_cast<u32>(step / 4 * panel_bytes + step % 4 * 32));
  if (step < register_panels * 4) {
    wgmma_m64n32k16_registers(products, query.step[step], key, accumulate);
  } else {
    const int at = step - register_panels * 4;
    const u64 panels_in_shared = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(shared.query());
    wgmma_m64n32k16(products, advance_descriptor(panels_in_shared, static_cast<u32>(at / 4 * query_panel_bytes + at % 4 * 32)), key,
                    accumulate);
  }
}

/// Starts a quarter of S = Q Kᵀ of the stage. The quarters are summed by the tensor cores from zero and added in fp32: a tensor core
/// truncates where fp32 arithmetic rounds, and one chain of 36 steps was seen to put lse off by 2.1e-4 at a logit of 149.
template <int chain>
KW_INLINE void start_chain(const Shared& shared, u64 keys, const QueryRegisters& query, Products& products) {
  wgmma_fence();
  KW_UNROLL
  for (int i = 0; i < steps / chains; ++i) multiply_step(shared, keys, query, chain * (steps / chains) + i, products, i > 0);
  wgmma_commit();
}

KW_INLINE void add_scaled(Products& scores, const Products& products, float scale) {
  KW_UNROLL
  for (int i = 0; i < block_n / 2; ++i) scores[i] = fused_multiply_add(products[i], scale, scores[i]);
}

/// A thread's two rows of the running softmax. A score is kept relative to `reference`, a maximum of some time ago.
struct RunningRows {
  float reference[2] = {};
  float limit[2] = {-infinity, -infinity};  // a score above it moves the reference: any, until the row has met a key
  float largest[2] = {-infinity, -infinity};
  float sum[2] = {};  // over this thread's keys
};

/// What the thread owns of the tile's mask: element i of `scores` is key i / 4 * 8 + pair * 2 + i % 2, row i / 2 % 2.
struct TileOwners {
  const u32* owners;
  u32 bit[2];
  KW_INLINE Vec8 of(int j) const { return load_vector<Vec8>(owners + j * 8); }
};

/// What the scores begin with: minus infinity where the row's token does not own the key, else minus the reference.
KW_INLINE void begin_scores(const TileOwners& owners, const RunningRows& running, Products& scores) {
  Vec8 own[block_n / 8];
  u32 all = ~0u;
  KW_UNROLL
  for (int j = 0; j < block_n / 8; ++j) {
    own[j] = owners.of(j);
    all &= own[j].word[0] & own[j].word[1];
  }
  // Per token a slot is seldom empty, and a whole tile is the usual case.
  const bool masked = !per_token || any_lane(all == 0);
  KW_UNROLL
  for (int i = 0; i < block_n / 2; ++i) scores[i] = -running.reference[i / 2 % 2];
  if (!masked) return;
  constexpr int tokens = layout.heads_per_block % 16 == 0 ? 1 : 2;  // of a thread's two rows
  KW_UNROLL
  for (int j = 0; j < block_n / 8; ++j) {
    KW_UNROLL
    for (int e = 0; e < 4; ++e) {
      if ((own[j].word[e % 2] & owners.bit[e / 2 % tokens]) == 0) scores[j * 4 + e] = -infinity;
    }
  }
}

/// P of the thread's scores, rounded in pairs, and its sums before rounding.
KW_INLINE void exponentials(const Products& scores, u32 (&packed)[2][block_n / 8], float (&sum)[2]) {
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    sum[r] = 0.0f;
    KW_UNROLL
    for (int j = 0; j < block_n / 8; ++j) {
      const float low = exp2_approx(scores[j * 4 + 2 * r]);
      const float high = exp2_approx(scores[j * 4 + 2 * r + 1]);
      sum[r] += low + high;
      packed[r][j] = pack_bf16(low, high);
    }
  }
}

KW_INLINE void tile_maximum(const Products& scores, float (&tile_max)[2]) {
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    float of_pair[block_n / 8];
    KW_UNROLL
    for (int j = 0; j < block_n / 8; ++j) of_pair[j] = max_number(scores[j * 4 + 2 * r], scores[j * 4 + 2 * r + 1]);
    tile_max[r] = max_number(max_number(of_pair[0], of_pair[1]), max_number(of_pair[2], of_pair[3]));
  }
  KW_UNROLL
  for (int r = 0; r < 2; ++r) tile_max[r] = reduce_lanes<4>(tile_max[r], [](float a, float b) { return max_number(a, b); });
}

/// Softmax of a finished tile of scores: P into the slot, and the factor that O is to be multiplied by before it is added. P is computed
/// before it is known whether the reference stays: nearly always it does.
KW_INLINE void finish_tile(const Shared& shared, const TileOwners& owners, const RingPlace<slots>& slot, int warp, int row, int pair,
                           Products& scores, RunningRows& running) {
  u32 packed[2][block_n / 8];
  float sum[2];
  float tile_max[2];
  float factor[2] = {1.0f, 1.0f};
  exponentials(scores, packed, sum);
  tile_maximum(scores, tile_max);
  const bool again = tile_max[0] > running.limit[0] || tile_max[1] > running.limit[1] || sum[0] != sum[0] || sum[1] != sum[1];
  if (any_lane(again)) {
    // NaN: a product overflowed. That of a key which is not the row's own must leave no trace; -inf + inf would.
    KW_UNROLL
    for (int j = 0; j < block_n / 8; ++j) {
      const Vec8 own = owners.of(j);
      KW_UNROLL
      for (int e = 0; e < 4; ++e) {
        if ((own.word[e % 2] & owners.bit[e / 2]) == 0) scores[j * 4 + e] = -infinity;
      }
    }
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!(tile_max[r] > running.limit[r])) continue;
      factor[r] = running.limit[r] == -infinity ? 0.0f : exp2_approx(-tile_max[r]);
      running.limit[r] = rescale_threshold;
      running.reference[r] += tile_max[r];
      running.sum[r] *= factor[r];
      KW_UNROLL
      for (int i = 0; i < block_n / 2; ++i) {
        if (i / 2 % 2 == r) scores[i] -= tile_max[r];
      }
      running.largest[r] = max_number(running.largest[r], running.reference[r]);
      tile_max[r] = -infinity;
    }
    exponentials(scores, packed, sum);
  }
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    running.largest[r] = max_number(running.largest[r], running.reference[r] + tile_max[r]);
    running.sum[r] += sum[r];
  }
  mbarrier_wait(shared.taken(slot.slot), slot.round ^ 1u);
  const int stored_row = warp * 16 + lane_id() / 8 % 2 * 8 + lane_id() % 8;
  const SharedAddress probability = shared.probability(slot.slot) + static_cast<u32>(stored_row * layout.probability_bytes);
  KW_UNROLL
  for (int j = 0; j < block_n / 8; j += 2) {
    const u32 fragment[4] = {packed[0][j], packed[1][j], packed[0][j + 1], packed[1][j + 1]};
    stmatrix_x4(probability + static_cast<u32>(((j + lane_id() / 16) ^ (stored_row / 2 % 4)) * 16), fragment);
  }
  if (pair == 0) {
    shared.factors(slot.slot)[row] = factor[0];
    shared.factors(slot.slot)[row + 8] = factor[1];
  }
}

KW_INLINE void score(const PrefillParams& params, const Shared& shared) {
  const int warp = warp_id() % 4;
  const int row = warp * 16 + lane_id() / 4;
  const int pair = lane_id() % 4;
  const float scale_log2 = params.sm_scale * log2_e;
  RingPlace<stages> ring;  // the stage whose products are started next
  RingPlace<slots> slot;
  WorkQueue queue(params, shared);
  for (;;) {
    const WorkItem item = queue.next();
    if (item.index == WorkItem::none) return;
    const int tiles = static_cast<int>(item.tiles());
    QueryRegisters query;
    load_query(params, block_rows(params, item.index), shared, row, pair, query);
    RunningRows running;
    for (int t = 0; t < tiles; ++t) {
      Products even;
      Products odd;
      Products scores;
      mbarrier_wait(shared.full(ring.slot), ring.round);
      async_proxy_fence();  // the stage's rows, and P of the tile before
      const u64 keys = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(shared.stage(ring.slot));
      start_chain<0>(shared, keys, query, even);
      start_chain<1>(shared, keys, query, odd);
      // Beside the products: the mask and the reference are what the scores begin with.
      const TileOwners owners{shared.owners(ring.slot) + pair * 2,
                              {1u << BlockRows::token_in_group(row), 1u << BlockRows::token_in_group(row + 8)}};
      begin_scores(owners, running, scores);
      wgmma_wait<1>();
      add_scaled(scores, even, scale_log2);
      start_chain<2>(shared, keys, query, even);
      wgmma_wait<1>();
      // The tile before is handed on when half of the products are through: its P V then fills the tensor cores during this softmax more
      // than beside the products.
      if (t > 0) warp_arrive(shared.ready(slot.slot ^ 1u));
      add_scaled(scores, odd, scale_log2);
      start_chain<3>(shared, keys, query, odd);
      wgmma_wait<1>();
      add_scaled(scores, even, scale_log2);
      wgmma_wait<0>();
      add_scaled(scores, odd, scale_log2);
      finish_tile(shared, owners, slot, warp, row, pair, scores, running);
      warp_arrive(shared.free(ring.slot));
      ring.next();
      slot.next();
    }
    if (tiles > 0) {
      async_proxy_fence();
      warp_arrive(shared.ready(slot.slot ^ 1u));
    }
    // The last slot of a block carries what the output is multiplied by; 0 for rows without a key.
    mbarrier_wait(shared.taken(slot.slot), slot.round ^ 1u);
    const BlockRows block = block_rows(params, item.index);
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float sum = reduce_lanes<4>(running.sum[r], [](float a, float b) { return a + b; });
      const RowScale scale = finish_row(params, block.row(row + 8 * r), running.reference[r], sum, running.largest[r], pair == 0);
      if (pair == 0) shared.factors(slot.slot)[row + 8 * r] = scale.empty ? 0.0f : scale.factor;
    }
    warp_arrive(shared.ready(slot.slot));
    slot.next();
  }
}

// ---- values -----------------------------------------------------------------------------------------------------------------------------

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

KW_INLINE void accumulate(const PrefillParams& params, const Shared& shared, int half) {
  const int own_row = warp_id() % 4 * 16 + lane_id() / 4;
  RingPlace<stages> ring;
  u32 handed = 0;  // times that a slot of P was handed over
  WorkQueue queue(params, shared);
  for (;;) {
    const WorkItem item = queue.next();
    if (item.index == WorkItem::none) return;
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
      const u64 probability = matrix_descriptor<SharedSwizzle::bytes_64, 0, 512>(shared.probability(handed % slots));
      const u64 values = matrix_descriptor<SharedSwizzle::bytes_128, panel_bytes, 1024>(
          shared.stage(ring.slot) + static_cast<u32>(half * value_columns / 64 * panel_bytes));
      wgmma_fence();
      KW_UNROLL
      for (int s = 0; s < block_n / 16; ++s) {
        KW_UNROLL
        for (int c = 0; c < 2; ++c) {
          wgmma_m64n128k16_values(output[c], advance_descriptor(probability, static_cast<u32>(s * 32)),
                                  advance_descriptor(values, static_cast<u32>(c * 2 * panel_bytes + s * 16 * 128)), begun || s > 0);
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
      warp_arrive(shared.taken(handed % slots));
      warp_arrive(shared.free(ring.slot));
      ring.next();
      ++handed;
      begun = true;
    }
    mbarrier_wait(shared.ready(handed % slots), handed / slots % 2);
    const float* factors = shared.factors(handed % slots);
    const float factor[2] = {factors[own_row], factors[own_row + 8]};
    warp_arrive(shared.taken(handed % slots));
    ++handed;
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int thread = static_cast<int>(reread_thread_index());  // where it is stored is not worth registers before it is
      const int pair = thread % 4;
      const int half = thread / warpgroup - 2;
      const Row target = block_rows(params, item.index).row(thread % warpgroup / 32 * 16 + thread % 32 / 4 + 8 * r);
      unsigned char* to = output_row(params, target) + (half * value_columns + pair * 8) * 2;
      KW_UNROLL
      for (int j = 0; j < value_columns / 32; ++j) {
        u32 mine[4];
        KW_UNROLL
        for (int g = 0; g < 4; ++g) {
          const float* values = &output[j / 4][(j % 4 * 4 + g) * 4 + 2 * r];
          mine[g] = factor[r] == 0.0f ? 0u : pack_bf16(values[0] * factor[r], values[1] * factor[r]);
        }
        const Vec16 group = whole_group(mine, pair);
        if (!target.padding) store_vector(to + j * 64, group);
      }
    }
  }
}

}  // namespace kw::sparse_mla

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads, 1)
    kw_sparse_mla_prefill(const __grid_constant__ kw::sparse_mla::PrefillParams params) {
  using namespace kw;
  using namespace kw::sparse_mla;
  if (params.tokens == 0) return;
  unsigned char* bytes = dynamic_shared();
  const Shared shared{shared_address(bytes), bytes};
  if (threadIdx.x == 0) {
    KW_UNROLL
    for (u32 s = 0; s < stages; ++s) {
      mbarrier_init(shared.full(s), warpgroup + 4);  // each gathering thread's copies, each of its warps' owners
      mbarrier_init(shared.free(s), 3 * 4);          // every warp of the other groups
    }
    KW_UNROLL
    for (u32 s = 0; s < slots; ++s) {
      mbarrier_init(shared.ready(s), 4);      // every scoring warp
      mbarrier_init(shared.taken(s), 2 * 4);  // every warp of the values groups
    }
    KW_UNROLL
    for (u32 s = 0; s < work_slots; ++s) {
      mbarrier_init(shared.work_full(s), 1);                    // the thread that takes
      mbarrier_init(shared.work_free(s), layout.threads / 32);  // every warp
    }
    mbarrier_init_fence();
  }
  block_sync();
  wait_for_previous_kernel();  // union_build
  const int group = warp_id() / 4;
  if (group == 0) {
    lower_registers<gather_registers>();
    gather(params, shared);
  } else if (group == 1) {
    raise_registers<scores_registers>();
    score(params, shared);
  } else {
    raise_registers<values_registers>();
    accumulate(params, shared, group - 2);
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
