#include "support/paged_ids.hpp"

#include <algorithm>

namespace kernwright::support {

std::int64_t PagedIds::dense(std::int64_t token) const {
  if (v2p.empty()) return std::max<std::int64_t>(0, token);
  const auto virtual_pages = static_cast<std::int64_t>(v2p.size()) - 1;
  const bool inside = token >= 0 && token < virtual_pages * page_size;
  const std::int64_t row = inside ? token / page_size : virtual_pages;
  const std::int64_t offset = inside ? token % page_size : 0;
  return std::max<std::int64_t>(0, v2p[static_cast<std::size_t>(row)] * page_size * multiplier + offset);
}

std::int64_t PagedIds::page(std::int64_t token) const {
  if (v2p.empty()) return std::max<std::int64_t>(0, token) / page_size;
  const auto virtual_pages = static_cast<std::int64_t>(v2p.size()) - 1;
  const bool inside = token >= 0 && token < virtual_pages * page_size;
  return std::max<std::int64_t>(0, v2p[static_cast<std::size_t>(inside ? token / page_size : virtual_pages)]) * multiplier;
}

}  // namespace kernwright::support
