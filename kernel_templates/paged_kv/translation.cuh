// From an engine's virtual token ids to the ids that attention kernels read with. docs/paged_kv.md has the words.
//
//   row(t)   = t / page_size where 0 <= t < virtual_pages * page_size, else virtual_pages: the tombstone row of v2p, which holds -1
//   dense(t) = max(0, v2p[row(t)] * page_size * multiplier + t mod page_size)     (offset 0 for the tombstone row)
//
// The sum is negative wherever v2p is -1, since an offset is below page_size, so that whatever is not mapped reads and writes row 0: the
// sink.
#pragma once

#include "common/global_memory.cuh"
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"

namespace kw::paged_kv {

inline constexpr i64 page_size = specialisation.page_size;
inline constexpr i64 multiplier = specialisation.multiplier;
inline constexpr bool has_table = specialisation.has_table != 0;

/// The pool's v2p table as a kernel gets it. A null table, or a kernel made without one, is a static pool: ids are what they say.
struct PageTable {
  const i64* v2p;     // [virtual_pages + 1]
  i64 virtual_pages;  // V

  KW_INLINE bool translates() const { return has_table && v2p != nullptr; }

  /// The physical page of a virtual token, -1 where it is not mapped.
  KW_INLINE i64 page(i64 token) const {
    const bool inside = static_cast<u64>(token) < static_cast<u64>(virtual_pages) * static_cast<u64>(page_size);
    return v2p[inside ? token / page_size : virtual_pages];
  }
  /// The same in 32 bits: a negative token is past every page when read as unsigned.
  KW_INLINE i64 page(int token) const {
    constexpr i64 past_int = i64{1} << 31;
    const u32 tokens = static_cast<u32>(minimum(minimum(virtual_pages, past_int / page_size + 1) * page_size, past_int));
    const u32 id = static_cast<u32>(token);
    return load_here(v2p + (id < tokens ? static_cast<i64>(id / static_cast<u32>(page_size)) : virtual_pages));
  }
};

KW_INLINE i64 dense_id(const PageTable& table, i64 token) {
  if (!table.translates()) return maximum<i64>(token, 0);
  // A token outside every page has page -1, and its offset does not matter: the sum is below 0 with any.
  const i64 offset = token >= 0 ? token % page_size : 0;
  return maximum<i64>(table.page(token) * (page_size * multiplier) + offset, 0);
}

/// The page id of a layer's dense view, dense_id of the page's first token over page_size: of a physical page, -1 where it is not mapped.
KW_INLINE i64 dense_page(i64 physical) {
  return maximum<i64>(physical, 0) * multiplier;
}
/// The same of a token in a static pool.
template <class Token>
KW_INLINE i64 static_page(Token token) {
  return maximum(token, Token{0}) / static_cast<Token>(page_size);
}

template <DType dtype>
struct IntegerOf {
  using Type = int;
};
template <>
struct IntegerOf<DType::i64> {
  using Type = i64;
};

/// An array whose type is a specialisation's parameter: i32 or i64.
template <DType dtype>
struct Integers {
  using Value = typename IntegerOf<dtype>::Type;
  const void* data;
  KW_INLINE i64 operator[](i64 i) const { return static_cast<const Value*>(data)[i]; }
  /// Of an element that is read once; the read starts here.
  KW_INLINE Value once(i64 i) const { return load_once(static_cast<const Value*>(data) + i); }
  KW_INLINE bool present() const { return data != nullptr; }
};

template <DType dtype>
KW_INLINE void store_integer(void* data, i64 i, i64 value) {
  if constexpr (dtype == DType::i64) {
    static_cast<i64*>(data)[i] = value;
  } else {
    static_cast<int*>(data)[i] = static_cast<int>(value);
  }
}

}  // namespace kw::paged_kv
