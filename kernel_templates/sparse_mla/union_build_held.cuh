// A group's positions, read once: what a thread's first reads bring stays in registers, for every pass over them. Behind the plan.
#pragma once

#include "common/types.cuh"
#include "sparse_mla/union_build_indices.cuh"

namespace kw::sparse_mla {

/// 16 indices of 2,048 a thread where threads / group_size is 128, as with 1,024 threads for 8 tokens. Longer rows are read again behind
/// them.
inline constexpr int held_quads = 4;

class HeldPositions {
 public:
  /// Starts the reads. What does not need them goes between this and the first visit().
  explicit KW_INLINE HeldPositions(const GroupIndices& group)
      : token_(static_cast<int>(threadIdx.x) / threads_a_token), limit_(group.limit) {
    if (token_ >= group.tokens) return;
    row_ = group.first_row + static_cast<i64>(token_) * group.topk;
    length_ = group.lengths == nullptr ? group.topk : maximum(0, minimum(group.lengths[token_], group.topk));
    quads_ = group.quads;
    if (!quads_) return;
    KW_UNROLL
    for (int q = 0; q < held_quads; ++q) {
      if (slot(q) < length_) held_[q] = load_vector<Vec16>(row_ + slot(q));
    }
  }

  /// Calls visit(token, positions) until every valid slot of the group was given once: four slots at a time, no_position in place of empty
  /// ones.
  template <class Visit>
  KW_INLINE void visit(Visit visit) const {
    if (length_ == 0) return;
    if (!quads_) {
      for (int at = lane(); at < length_; at += threads_a_token) {
        const u32 positions[4] = {valid(static_cast<u32>(row_[at])), no_position, no_position, no_position};
        visit(token_, positions);
      }
      return;
    }
    KW_UNROLL
    for (int q = 0; q < held_quads; ++q) {
      if (slot(q) < length_) visit_quad(held_[q], slot(q), visit);
    }
    for (int q = held_quads; slot(q) < length_; q += held_quads) {
      Vec16 quads[held_quads];
      KW_UNROLL
      for (int i = 0; i < held_quads; ++i) quads[i] = slot(q + i) < length_ ? load_vector<Vec16>(row_ + slot(q + i)) : Vec16{};
      KW_UNROLL
      for (int i = 0; i < held_quads; ++i) {
        if (slot(q + i) < length_) visit_quad(quads[i], slot(q + i), visit);
      }
    }
  }

 private:
  static constexpr int threads_a_token = layout.threads / group_size;

  static KW_INLINE int lane() { return static_cast<int>(threadIdx.x) % threads_a_token; }
  static KW_INLINE int slot(int quad) { return (lane() + quad * threads_a_token) * 4; }
  KW_INLINE u32 valid(u32 position) const { return position < limit_ ? position : no_position; }

  template <class Visit>
  KW_INLINE void visit_quad(const Vec16& quad, int first, Visit visit) const {
    u32 positions[4];
    KW_UNROLL
    for (int i = 0; i < 4; ++i) positions[i] = first + i < length_ ? valid(quad.word[i]) : no_position;
    visit(token_, positions);
  }

  int token_;
  u32 limit_;
  const int* row_ = nullptr;
  int length_ = 0;
  bool quads_ = false;
  Vec16 held_[held_quads] = {};
};

}  // namespace kw::sparse_mla
