#include "paged_pool/page_mapping.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright {
namespace {

constexpr std::int64_t kUnbound = -1;

std::size_t at(std::int64_t page) {
  return static_cast<std::size_t>(page);
}

}  // namespace

PageMapping::PageMapping(std::int64_t virtual_pages, std::int64_t physical_pages)
    : v2p_(at(virtual_pages + 1), kUnbound), p2v_(at(physical_pages + 1), kUnbound) {
  for (std::int64_t page = 1; page < virtual_pages; ++page) free_.insert(free_.end(), page);
  v2p_[0] = 0;
  p2v_[0] = 0;
}

std::int64_t PageMapping::growth(std::int64_t count) const noexcept {
  return std::max<std::int64_t>(count - holes(), 0);
}

void PageMapping::bind_pair(std::int64_t virtual_page, std::int64_t physical_page) {
  v2p_[at(virtual_page)] = physical_page;
  p2v_[at(physical_page)] = virtual_page;
}

std::vector<std::int64_t> PageMapping::bind(std::int64_t count) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t virtual_page = *free_.begin();
    free_.erase(free_.begin());
    std::int64_t physical_page = watermark_;
    if (holes_.empty()) {
      ++watermark_;
    } else {
      physical_page = *holes_.begin();
      holes_.erase(holes_.begin());
    }
    bind_pair(virtual_page, physical_page);
    ids.push_back(virtual_page);
  }
  return ids;
}

Result<> PageMapping::check_bound(std::span<const std::int64_t> ids) const {
  std::set<std::int64_t> seen;
  for (const std::int64_t id : ids) {
    const auto refuse = [&](std::string_view why) {
      return fail(ErrorCode::invalid_argument, fmt::format("virtual page {} cannot be freed: {}; nothing was changed", id, why));
    };
    if (id == 0) return refuse("page 0 is the sink");
    if (id < 0 || id >= virtual_pages()) return refuse(fmt::format("legal are 1 to {}", virtual_pages() - 1));
    if (v2p_[at(id)] == kUnbound) return refuse("it is not allocated");
    if (!seen.insert(id).second) return refuse("it was given twice");
  }
  return {};
}

void PageMapping::unbind(std::span<const std::int64_t> ids) {
  for (const std::int64_t id : ids) {
    const std::int64_t physical_page = v2p_[at(id)];
    v2p_[at(id)] = kUnbound;
    p2v_[at(physical_page)] = kUnbound;
    holes_.insert(physical_page);
    free_.insert(id);
  }
}

std::vector<PageMapping::Move> PageMapping::close_holes() {
  std::vector<Move> moves;
  const std::int64_t band = watermark_ - holes();
  auto hole = holes_.begin();
  for (std::int64_t page = band; page < watermark_; ++page) {
    const std::int64_t owner = p2v_[at(page)];
    if (owner == kUnbound) continue;
    moves.push_back({page, *hole++});  // as many holes lie below the band as pages in it are bound
    p2v_[at(page)] = kUnbound;
    bind_pair(owner, moves.back().to);
  }
  holes_.clear();
  watermark_ = band;
  return moves;
}

}  // namespace kernwright
