// Sparse MLA prefill cases: the same inputs for the host interpreter and for a CUDA device, judged against the CPU reference.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/sparse_mla_prefill.hpp"
#include "support/sparse_mla_check.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::cases {

/// What a case asks for. The defaults are an ordinary small problem.
struct SparseMlaCase {
  int heads = 8;
  int group_size = 8;  ///< 0: union off.
  std::int64_t tokens = 19;
  std::int64_t kv_rows = 96;
  std::int64_t topk = 40;
  int d_qk = 576;
  float logit_deviation = 1;  ///< sm_scale is chosen for it: q and kv are N(0, 1).
  bool sink = false;          ///< Finite, +inf and -inf among the heads.
  bool topk_length = false;   ///< Random, with 0, negative and too large ones.
  bool statistics = false;    ///< Also max_logits and lse.
  bool holes = false;         ///< Slots of -1, far below 0, S and beyond; one token with none valid.
  bool poison = false;        ///< NaN and infinities in every row that nobody selects.
  bool planted = false;       ///< Tokens whose mass sits on one key at an edge of a list, a tile, a group.
  bool strided = false;       ///< q, kv and out with gaps between tokens, heads and rows.
  std::optional<Tile> tile;
  std::uint64_t seed = 1;

  [[nodiscard]] std::string text() const;
};

/// The op's options for a case.
SparseMlaPrefillOptions options_of(const SparseMlaCase& c, DeviceId device);

/// The inputs in host memory, dense.
struct SparseMlaInputs {
  support::SparseMlaProblem problem;  ///< Views of the vectors below.
  std::vector<support::Bf16> q, kv;
  std::vector<std::int32_t> indices, topk_length;
  std::vector<float> sink;
};
/// Not movable into place once made: the problem's views point into it.
std::unique_ptr<SparseMlaInputs> make_inputs(const SparseMlaCase& c);

/// A device's copy of inputs and outputs, and the arguments that name them.
class DeviceProblem {
 public:
  static Result<DeviceProblem> create(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, const SparseMlaInputs& inputs,
                                      Bytes workspace);

  SparseMlaPrefillArguments arguments;
  /// New values in the same device memory: what a captured graph reads at its next replay.
  Result<> upload_indices(const std::vector<std::int32_t>& indices);
  Result<> poison_outputs();

  struct Outputs {
    std::vector<support::Bf16> out;      ///< Dense [T, H, 512].
    std::vector<float> lse, max_logits;  ///< Empty where the case has no statistics.
    bool gaps_untouched = true;          ///< Nothing was written between the strided rows.
  };
  Result<Outputs> download() const;

 private:
  std::int64_t tokens_ = 0, heads_ = 0, out_token_stride_ = 0, out_head_stride_ = 0;
  bool statistics_ = false;
  DeviceBuffer q_, kv_, indices_, topk_length_, sink_, out_, lse_, max_logits_, workspace_;
};

struct CaseOutcome {
  support::SparseMlaCheck check;
  bool gaps_untouched = true;
  std::vector<support::Bf16> out;
  std::vector<PrepareReport> reports;
  [[nodiscard]] bool passed() const { return check.passed && gaps_untouched; }
  /// For a failing test's message.
  [[nodiscard]] std::string text() const;
};

/// Makes the op, runs it once on a stream of its own, compares with the reference (sets with union, lists without).
Result<CaseOutcome> run_case(const Runtime& runtime, DeviceId device, const SparseMlaCase& c);

/// Judges outputs for a case's inputs.
support::SparseMlaCheck judge(const SparseMlaCase& c, const SparseMlaInputs& inputs, const DeviceProblem::Outputs& outputs);

/// The planted faults: each must turn a case red.
enum class Mutation : std::uint8_t { none, row_doubled, row_dropped, mask_bit_flipped, tail_skipped, union_end_skipped };
std::string_view to_string(Mutation mutation) noexcept;
/// Runs union build and attention apart, with the fault planted in the union between them (or the last group left out).
Result<CaseOutcome> run_mutated_union(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, Mutation mutation);

/// heads {1, 4, 8, 12, 16, 20, 32, 64, 128} x union {0, 2, 4, 8, 16}, each with a different mix of the features above; T is no multiple
/// of G and K no power of two.
std::vector<SparseMlaCase> contract_cases();

}  // namespace kernwright::cases
