// What a checked run says of the rows that arrived.
#pragma once

#include "common/atomics.cuh"
#include "common/types.cuh"

namespace gather_limit {

/// The words of 16-byte piece `piece` of a row, each times an odd factor of its own: bytes that are missing, of another row or at another
/// place of the row change the sum over a token's rows.
KW_INLINE kw::u32 weighted_words(const unsigned char* at, int piece) {
  const kw::Vec16 words = kw::load_vector<kw::Vec16>(at);
  kw::u32 sum = 0;
  KW_UNROLL
  for (int i = 0; i < 4; ++i) sum += words.word[i] * static_cast<kw::u32>(2 * (4 * piece + i) + 1);
  return sum;
}

/// What a stage was filled with, in registers of the thread that copies and looks at its part of it.
struct Filling {
  int token = -1;
  kw::u32 present = 0;  // bit p: the row of pass p was copied
};

}  // namespace gather_limit
