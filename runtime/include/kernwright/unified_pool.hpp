// A unified memory pool: two sub-pools of pages that grow towards each other in one device buffer, with ids that survive compaction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernwright/paged_kv.hpp"
#include "kernwright/pool_hooks.hpp"

namespace kernwright {

enum class PoolSide : std::uint8_t {
  kv,     ///< From the buffer's start upwards: kv rows of the full-attention MLA layers, read through dense views.
  state,  ///< From the buffer's end downwards: pages of bytes that mean nothing to the pool, such as linear-attention state.
};
std::string_view to_string(PoolSide side) noexcept;  ///< "kv", "state"

enum class Compaction : std::uint8_t {
  eager,     ///< free() closes the holes that it makes.
  deferred,  ///< Holes stay, and are filled first, until compact().
};

struct UnifiedPoolOptions {
  DeviceId device;
  Bytes size;              ///< Of both sides' pages. The buffer is larger by the tail that the last layer's dense view runs over.
  int page_size = 64;      ///< Tokens a kv page.
  int layers = 1;          ///< L: full-attention layers whose rows share a kv page's envelope.
  int latent_width = 512;  ///< Elements of a kv row's two parts.
  int rope_width = 64;
  DType dtype = DType::bf16;
  std::int64_t kv_virtual_pages = 0;     ///< Ids of kv pages, the sink's included: at least 2.
  Bytes state_page_bytes;                ///< A multiple of 16; 0: there is no state side.
  std::int64_t state_virtual_pages = 0;  ///< At least 2 where there is a state side.
  Compaction compaction = Compaction::eager;
  bool zero_pages = true;          ///< Pages are handed out zeroed: readers mask by arithmetic, and 0 · NaN is NaN.
  DType token_dtype = DType::i32;  ///< As in PagedKvOptions.
  DType request_dtype = DType::i64;
  DType index_dtype = DType::i32;
};

/// Movable. One thread at a time. What changes pages is enqueued on the stream given, behind everything that the pool enqueued before on
/// any stream; reads of other streams are ordered by wait(). None of it may be called while the stream captures: a captured graph holds the
/// addresses of tables and views, which stay for the pool's life, and a replay reads what is in them then.
class UnifiedPool {
 public:
  /// Prepares the kernels and allocates buffer and tables; the sink pages are zero.
  /// Errors: invalid_argument (names the option), out_of_memory, and those of Runtime::prepare.
  static Result<UnifiedPool> create(const Runtime& runtime, const UnifiedPoolOptions& options);
  UnifiedPool(UnifiedPool&&) noexcept;
  UnifiedPool& operator=(UnifiedPool&&) noexcept;
  ~UnifiedPool();

  /// Binds `count` virtual pages. Errors that change nothing: invalid_argument (count below 0, no such side), out_of_memory where the
  /// virtual pages are used up or the two sides would meet, capturing.
  [[nodiscard]] Result<std::vector<std::int64_t>> allocate(PoolSide side, std::int64_t count, StreamHandle stream);
  /// Unbinds the pages; the ids then read the sink. Errors that change nothing: invalid_argument for an id that is the sink, outside, not
  /// allocated or given twice; capturing.
  [[nodiscard]] Result<> free(PoolSide side, std::span<const std::int64_t> virtual_pages, StreamHandle stream);
  /// Closes the holes of a side: pages above the new watermark move into them. Returns how many moved.
  [[nodiscard]] Result<std::int64_t> compact(PoolSide side, StreamHandle stream);
  /// `stream` goes on only behind what the pool has enqueued so far.
  [[nodiscard]] Result<> wait(StreamHandle stream);

  /// For attention over kv pages: the table, the page size, the multiplier.
  [[nodiscard]] PoolHooks hooks() const;
  [[nodiscard]] PoolKind kind() const noexcept { return PoolKind::unified_mla; }
  /// Prepared for this pool's constants.
  [[nodiscard]] const PagedKv& kernels() const;
  /// A layer's rows, [pages · L · page_size, latent_width + rope_width], indexed by dense ids. invalid_argument for a layer that is none.
  [[nodiscard]] Result<TensorView> dense_view(int layer) const;
  /// [V + 1] and [P + 1] int64 on the device; the last element stays −1.
  [[nodiscard]] TensorView v2p(PoolSide side) const;
  [[nodiscard]] TensorView p2v(PoolSide side) const;
  /// Where a virtual page's envelope begins now; null where it is not bound.
  [[nodiscard]] void* page_address(PoolSide side, std::int64_t virtual_page) const;

  struct Statistics {
    std::int64_t used = 0;          ///< Pages bound, without the sink.
    std::int64_t holes = 0;         ///< Pages below the watermark that are not bound.
    std::int64_t watermark = 0;     ///< Pages below it are used or holes; the sink is the first.
    std::int64_t highest = 0;       ///< The highest watermark so far.
    std::int64_t moved_pages = 0;   ///< By compaction, in all.
    std::int64_t compactions = 0;   ///< Those that moved something.
    std::int64_t free_virtual = 0;  ///< Virtual pages left.
    std::int64_t free_pages = 0;    ///< Pages that this side could still grow by.
  };
  [[nodiscard]] Statistics statistics(PoolSide side) const;

 private:
  struct State;
  explicit UnifiedPool(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace kernwright
