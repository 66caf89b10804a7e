// The collectives of one warp: who has given its value, and the results that lanes may still read. No waiting and no lock in here.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "backend/host/simt/abi.hpp"

namespace kernwright::host {

class WarpCollectives {
 public:
  /// Forgets everything; lanes 0 to `lanes` - 1 exist.
  void reset(unsigned lanes) noexcept;

  enum class Outcome : unsigned char {
    wait,         ///< Others are missing.
    complete,     ///< This lane was the last: every lane of released() may go on.
    not_in_mask,  ///< The calling lane is not in its own mask.
    other_call,   ///< Lanes of one mask are in different calls; other() is where.
  };
  /// `mine` must stay readable until the collective completes. Throws std::bad_alloc.
  Outcome arrive(unsigned lane, const void* mine, unsigned bytes, unsigned mask, kw::simt::Location where);

  [[nodiscard]] unsigned released() const noexcept { return released_; }
  [[nodiscard]] kw::simt::Location other() const noexcept { return other_; }
  /// What `lane`'s last completed collective gave: 32 values, valid until the lane arrives at the next one. Null where they had no bytes.
  [[nodiscard]] const void* result(unsigned lane) const noexcept;
  /// The mask without the lanes that this warp does not have.
  [[nodiscard]] unsigned existing(unsigned mask) const noexcept { return mask & lanes_; }

 private:
  struct Pending {
    unsigned mask;
    unsigned arrived;
    unsigned bytes;
    kw::simt::Location where;
    std::array<const void*, kw::simt::kWarpSize> values;
  };
  struct Result {
    alignas(64) std::array<std::byte, std::size_t{kw::simt::kWarpSize} * kw::simt::kMaxExchangeBytes> bytes;
    unsigned readers = 0;
  };
  static constexpr int kNone = -1;
  int free_result();

  unsigned lanes_ = 0;
  unsigned released_ = 0;
  kw::simt::Location other_{};
  std::vector<Pending> pending_;
  std::vector<std::unique_ptr<Result>> results_;
  std::array<int, kw::simt::kWarpSize> result_of_lane_{};
};

}  // namespace kernwright::host
