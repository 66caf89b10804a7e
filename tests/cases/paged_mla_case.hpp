// Paged MLA decode cases: the same inputs for the host interpreter and for a CUDA device, judged against the CPU reference, which sees each
// request's tokens one after the other and knows nothing of pages. Uses doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cases/device_integers.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "kernwright/unified_pool.hpp"
#include "support/sparse_mla_check.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::cases {

struct PagedMlaCase {
  int heads = 8;
  int query_tokens = 1;
  int page_size = 16;
  int d_qk = 576;
  int layers = 0;  ///< L of a unified pool, whose pages were moved by compaction; the last layer is read. 0: a static pool.
  std::vector<std::int64_t> lengths{0, 1, 15, 16, 17, 90};
  DType length_dtype = DType::i32;
  float logit_deviation = 1;  ///< sm_scale is chosen for it: q and kv are N(0, 1).
  bool planted = true;        ///< Keys that hold most of a draft token's mass: its own, the last that it sees, and those at edges.
  bool strided = false;       ///< q and out with gaps.
  std::optional<int> shares;
  std::optional<Tile> tile;
  std::uint64_t seed = 1;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::int64_t batch() const { return static_cast<std::int64_t>(lengths.size()); }
};

PagedMlaDecodeOptions options_of(const PagedMlaCase& c, DeviceId device);

/// The inputs in host memory. `rows` has the requests' kv rows one after the other; the reference selects of them.
struct PagedMlaInputs {
  std::vector<support::Bf16> q, rows;
  std::vector<std::int64_t> first_row;  ///< Of each request.
  std::vector<std::int32_t> indices, visible;
  support::SparseMlaProblem problem;  ///< Views of the vectors above; a token of it is a new token of a request.
};
std::unique_ptr<PagedMlaInputs> make_inputs(const PagedMlaCase& c);

/// A pool with the case's rows in it: NaN in every row that no request owns and past every request's length, garbage in the block table's
/// cells past its pages.
class PagedRows {
 public:
  virtual ~PagedRows() = default;
  [[nodiscard]] virtual TensorView kv() const = 0;           ///< The layer's dense view.
  [[nodiscard]] virtual TensorView block_table() const = 0;  ///< As it is now.
};
std::unique_ptr<PagedRows> make_static_rows(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs);

/// A unified pool in which the requests' pages lie between others'.
class UnifiedRows final : public PagedRows {
 public:
  UnifiedRows(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs);
  /// Frees the others' pages, compacts, and writes the block table anew in the same memory. Returns how many pages moved.
  std::int64_t compact();
  [[nodiscard]] TensorView kv() const override;
  [[nodiscard]] TensorView block_table() const override { return table_->table(c_.batch(), width_, width_); }
  [[nodiscard]] const UnifiedPool& pool() const { return *pool_; }
  [[nodiscard]] std::int64_t virtual_id(std::int64_t request, std::int64_t token) const;

 private:
  void write_block_table();
  Runtime runtime_;
  DeviceId device_;
  PagedMlaCase c_;
  std::int64_t width_;
  std::optional<UnifiedPool> pool_;
  Stream stream_;
  std::vector<std::vector<std::int64_t>> pages_;  ///< Virtual, of each request.
  std::vector<std::int64_t> others_;
  std::unique_ptr<DeviceIntegers> tokens_, requests_, lengths_, table_;
};

/// A device's copy of the rest, and the arguments that name everything.
class PagedMlaProblem {
 public:
  PagedMlaProblem(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs, const PagedRows& rows,
                  Bytes workspace);
  PagedMlaDecodeArguments arguments;
  struct Outputs {
    std::vector<support::Bf16> out;  ///< Dense [B · s_q, H, 512].
    std::vector<float> lse;
    bool gaps_untouched = true;
  };
  /// Fills outputs and workspace with a pattern that is NaN in every type.
  void poison();
  void write_lengths(const std::vector<std::int64_t>& lengths) { lengths_->write(lengths); }
  [[nodiscard]] Outputs download() const;

 private:
  std::int64_t rows_, heads_, head_stride_, token_stride_;
  DeviceBuffer q_, out_, lse_, workspace_;
  std::unique_ptr<DeviceIntegers> lengths_;
};

/// Fails the test where the outputs are wrong.
void judge(const PagedMlaInputs& inputs, const PagedMlaProblem::Outputs& outputs);
[[nodiscard]] support::SparseMlaCheck check_of(const PagedMlaInputs& inputs, const PagedMlaProblem::Outputs& outputs);

/// Makes the op, runs it once on `inputs` over a pool of the case's kind, and checks that the tile asked for ran.
[[nodiscard]] PagedMlaProblem::Outputs decode_once(const Runtime& runtime, DeviceId device, const PagedMlaCase& c,
                                                   const PagedMlaInputs& inputs);

/// The same on the case's own inputs, judged.
void decode_is_right(const Runtime& runtime, DeviceId device, const PagedMlaCase& c);

/// One NaN in the query of one row: that row's output and lse are NaN, however its request is cut, and no other row's bits change.
void query_that_is_not_finite_stays_alone(const Runtime& runtime, DeviceId device, PagedMlaCase c);

/// The tiles of the fall-back order that are legal for the case and within the device's limits.
std::vector<Tile> fitting_tiles(const Runtime& runtime, DeviceId device, const PagedMlaCase& c);

/// Attention and merge launched apart, with shares as small as one key, `slices` blocks a row in the merge, and a fault planted between
/// them or in what they are given.
enum class DecodeFault : std::uint8_t { none, split_dropped, weight_wrong, causal_off_by_one, tail_not_masked };
std::string_view to_string(DecodeFault fault) noexcept;
[[nodiscard]] support::SparseMlaCheck run_apart(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, int shares,
                                                DecodeFault fault, int slices = 1);

/// The op before and after compaction: the same bits, from rows that have moved.
void decode_follows_compaction(const Runtime& runtime, DeviceId device, const PagedMlaCase& c);
/// SparseMlaPrefill over the same view with translated indices, before and after compaction, per token and with the union over the draft
/// tokens of a request.
void sparse_form_follows_compaction(const Runtime& runtime, DeviceId device, const PagedMlaCase& c);

/// H 1, 3, 8, 16, 128; s_q 1, 2, 4; pages of 1, 16, 64, 128 tokens; static and unified.
std::vector<PagedMlaCase> paged_mla_cases();

}  // namespace kernwright::cases
