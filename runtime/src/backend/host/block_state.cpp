#include "backend/host/block_state.hpp"

#include <fmt/format.h>

#include <bit>
#include <string_view>
#include <tuple>

#include "backend/host/async_copies.hpp"
#include "backend/host/fault.hpp"

namespace kernwright::host {
namespace {

using kw::simt::kWarpSize;
using kw::simt::Location;

/// "0-31, 64, 66"; long lists end in "and N more".
std::string ranges(const std::vector<unsigned>& ascending) {
  constexpr std::size_t kMaxRanges = 8;
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (shown++ == kMaxRanges) return text + fmt::format(" and {} more", ascending.size() - i);
    if (!text.empty()) text += ", ";
    text += end - i == 1 ? fmt::format("{}", ascending[i]) : fmt::format("{}-{}", ascending[i], ascending[end - 1]);
    i = end;
  }
  return text;
}

std::string lanes(unsigned mask) {
  std::vector<unsigned> list;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) != 0) list.push_back(lane);
  }
  return list.empty() ? "none" : ranges(list);
}

std::string counted(const std::vector<unsigned>& threads) {
  return (threads.size() == 1 ? "thread " : "threads ") + ranges(threads);
}

}  // namespace

std::string place(Location where) {
  std::string_view file = where.file == nullptr ? "?" : where.file;
  if (file.starts_with("./")) file.remove_prefix(2);
  return fmt::format("{}:{}", file, where.line);
}

std::string place(kw::simt::Index block) {
  return fmt::format("({}, {}, {})", block.x, block.y, block.z);
}

void BlockState::reset(kw::simt::Index block, unsigned threads) {
  block_ = block;
  places_.assign(threads, {});
  for (NamedBarrier& barrier : barriers_) barrier.reset();
  if (warps_.size() < warps()) warps_.resize(warps());
  for (unsigned warp = 0; warp < warps(); ++warp) warps_[warp].reset(threads - warp * kWarpSize);
}

std::string BlockState::in_block() const {
  return fmt::format("in block {} of {} threads", place(block_), threads());
}

BlockState::Outcome BlockState::arrive_at_barrier(unsigned thread, unsigned id, unsigned threads, Location where, std::string& problem) {
  const bool whole_block = threads == this->threads();
  if (id >= NamedBarrier::kCount || threads == 0 || threads > this->threads() || (threads % kWarpSize != 0 && !whole_block)) {
    problem = fmt::format(
        "illegal barrier {}: thread {} waits at barrier {} for {} threads at {}; barriers are 0 to {}, and the number of threads is the "
        "whole block or a multiple of {} below it",
        in_block(), thread, id, threads, place(where), NamedBarrier::kCount - 1, kWarpSize);
    return Outcome::fault;
  }
  NamedBarrier& barrier = barriers_[id];
  switch (barrier.arrive(thread, threads, id == 0 && whole_block, where)) {
    case NamedBarrier::Outcome::complete:
      for (const unsigned released : barrier.waiting()) places_[released].kind = ThreadPlace::Kind::running;
      return Outcome::go_on;
    case NamedBarrier::Outcome::wait: places_[thread] = {ThreadPlace::Kind::barrier, id, threads, where}; return Outcome::wait;
    case NamedBarrier::Outcome::other_count:
      problem = fmt::format("divergent barrier {}: {} wait at barrier {} for {} threads at {}, thread {} waits at it for {} threads at {}",
                            in_block(), counted(barrier.waiting()), id, barrier.expected(), place(barrier.place()), thread, threads,
                            place(where));
      return Outcome::fault;
    case NamedBarrier::Outcome::other_place: break;
  }
  std::vector<unsigned> here;
  for (unsigned other = 0; other < this->threads(); ++other) {
    if (places_[other].kind == ThreadPlace::Kind::barrier && places_[other].number == id) here.push_back(other);
  }
  problem = fmt::format("divergent barrier {}: {} wait{} at the block-wide barrier at {}, thread {} came to the one at {}", in_block(),
                        counted(here), here.size() == 1 ? "s" : "", place(barrier.place()), thread, place(where));
  return Outcome::fault;
}

BlockState::Outcome BlockState::arrive_at_collective(unsigned thread, const void* mine, unsigned bytes, unsigned mask, Location where,
                                                     std::string& problem) {
  const unsigned lane = thread % kWarpSize;
  const unsigned first = thread - lane;
  WarpCollectives& warp = warps_[thread / kWarpSize];
  switch (warp.arrive(lane, mine, bytes, mask, where)) {
    case WarpCollectives::Outcome::complete:
      for (unsigned left = warp.released(); left != 0; left &= left - 1) {
        places_[first + static_cast<unsigned>(std::countr_zero(left))].kind = ThreadPlace::Kind::running;
      }
      return Outcome::go_on;
    case WarpCollectives::Outcome::wait:
      places_[thread] = {ThreadPlace::Kind::collective, warp.existing(mask), 0, where};
      return Outcome::wait;
    case WarpCollectives::Outcome::not_in_mask:
      problem = fmt::format("illegal warp collective {}: thread {} is lane {} and calls a collective of lanes {} (mask {:#010x}) at {}",
                            in_block(), thread, lane, lanes(mask), mask, place(where));
      return Outcome::fault;
    case WarpCollectives::Outcome::other_call: break;
  }
  problem = fmt::format("divergent warp collective {}: of the lanes {} of warp {}, thread {} is at {}, an earlier one at {}", in_block(),
                        lanes(warp.existing(mask)), thread / kWarpSize, thread, place(where), place(warp.other()));
  return Outcome::fault;
}

std::string BlockState::async_copy_problem(unsigned thread, const void* shared, const void* global, unsigned copy_bytes,
                                           unsigned source_bytes, Location where) const {
  const char* problem = AsyncCopies::problem(shared, global, copy_bytes, source_bytes);
  if (problem == nullptr) return {};
  return fmt::format("illegal cp.async {}: thread {} at {}: {} bytes from {} ({} of them read) to {}; cp.async {}", in_block(), thread,
                     place(where), copy_bytes, fmt::ptr(global), source_bytes, fmt::ptr(shared), problem);
}

std::string BlockState::deadlock() const {
  struct Group {
    ThreadPlace place;
    unsigned warp;
    std::vector<unsigned> threads;
  };
  std::vector<Group> groups;
  bool barrier = false;
  for (unsigned thread = 0; thread < threads(); ++thread) {
    const ThreadPlace& at = places_[thread];
    const unsigned warp = at.kind == ThreadPlace::Kind::collective ? thread / kWarpSize : 0;
    barrier |= at.kind == ThreadPlace::Kind::barrier;
    const auto same = [&](const Group& group) {
      const ThreadPlace& other = group.place;
      if (other.kind != at.kind || group.warp != warp) return false;
      if (at.kind == ThreadPlace::Kind::running || at.kind == ThreadPlace::Kind::finished) return true;
      return std::tie(other.number, other.threads, other.where.line) == std::tie(at.number, at.threads, at.where.line) &&
             std::string_view(other.where.file) == at.where.file;
    };
    std::size_t i = 0;
    while (i < groups.size() && !same(groups[i])) ++i;
    if (i == groups.size()) groups.push_back({at, warp, {}});
    groups[i].threads.push_back(thread);
  }
  std::string text = fmt::format("{} {}: ", barrier ? "divergent barrier" : "divergent warp collective", in_block());
  constexpr std::size_t kMaxGroups = 12;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i != 0) text += "; ";
    if (i == kMaxGroups) return text + "and so on";
    const Group& group = groups[i];
    const bool one = group.threads.size() == 1;
    text += counted(group.threads);
    switch (group.place.kind) {
      case ThreadPlace::Kind::running: text += one ? " runs" : " run"; break;
      case ThreadPlace::Kind::finished: text += one ? " has returned" : " have returned"; break;
      case ThreadPlace::Kind::barrier:
        text += fmt::format(" wait{} at barrier {} for {} threads at {}", one ? "s" : "", group.place.number, group.place.threads,
                            place(group.place.where));
        break;
      case ThreadPlace::Kind::collective:
        text += fmt::format(" wait{} in a warp collective of lanes {} at {}", one ? "s" : "", lanes(group.place.number),
                            place(group.place.where));
        break;
    }
  }
  return text;
}

}  // namespace kernwright::host
