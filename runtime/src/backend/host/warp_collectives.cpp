#include "backend/host/warp_collectives.hpp"

#include <bit>
#include <cstring>

namespace kernwright::host {

using kw::simt::kWarpSize;

void WarpCollectives::reset(unsigned lanes) noexcept {
  lanes_ = lanes >= kWarpSize ? ~0U : (1U << lanes) - 1;
  pending_.clear();
  for (const auto& result : results_) result->readers = 0;
  result_of_lane_.fill(kNone);
}

WarpCollectives::Outcome WarpCollectives::arrive(unsigned lane, const void* mine, unsigned bytes, unsigned mask, kw::simt::Location where) {
  mask = existing(mask);
  if ((mask >> lane & 1U) == 0) return Outcome::not_in_mask;
  if (int& mine_before = result_of_lane_[lane]; mine_before != kNone) {
    --results_[static_cast<std::size_t>(mine_before)]->readers;
    mine_before = kNone;
  }
  std::size_t at = 0;
  while (at < pending_.size() && pending_[at].mask != mask) ++at;
  if (at == pending_.size()) pending_.push_back({mask, 0, bytes, where, {}});
  Pending& collective = pending_[at];
  // A __syncwarp may be met from several places; values are exchanged by one and the same call.
  if (collective.bytes != bytes ||
      (bytes != 0 && (collective.where.line != where.line || std::strcmp(collective.where.file, where.file) != 0))) {
    other_ = collective.where;
    return Outcome::other_call;
  }
  collective.arrived |= 1U << lane;
  collective.values[lane] = mine;
  if (collective.arrived != mask) return Outcome::wait;

  if (bytes != 0) {
    const int index = free_result();
    Result& result = *results_[static_cast<std::size_t>(index)];
    for (unsigned other = 0; other < kWarpSize; ++other) {
      if ((mask >> other & 1U) == 0) continue;
      std::memcpy(result.bytes.data() + std::size_t{other} * bytes, collective.values[other], bytes);
      result_of_lane_[other] = index;
    }
    result.readers = static_cast<unsigned>(std::popcount(mask));
  }
  released_ = mask;
  pending_[at] = pending_.back();
  pending_.pop_back();
  return Outcome::complete;
}

const void* WarpCollectives::result(unsigned lane) const noexcept {
  const int index = result_of_lane_[lane];
  return index == kNone ? nullptr : results_[static_cast<std::size_t>(index)]->bytes.data();
}

int WarpCollectives::free_result() {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (results_[i]->readers == 0) return static_cast<int>(i);
  }
  results_.push_back(std::make_unique<Result>());
  return static_cast<int>(results_.size()) - 1;
}

}  // namespace kernwright::host
