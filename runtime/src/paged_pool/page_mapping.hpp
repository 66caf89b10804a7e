// One sub-pool's pages on the host: which virtual page is where. No device, no bytes.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright {

/// Pages 0 to watermark - 1 are used or holes. Virtual and physical page 0 are the sink: bound to each other for good. Not thread-safe.
class PageMapping {
 public:
  /// Both counts include page 0.
  PageMapping(std::int64_t virtual_pages, std::int64_t physical_pages);

  struct Move {
    std::int64_t from = 0;
    std::int64_t to = 0;
    friend bool operator==(const Move&, const Move&) = default;
  };

  /// Physical pages that `count` more would need beyond the watermark: holes are filled first.
  [[nodiscard]] std::int64_t growth(std::int64_t count) const noexcept;
  [[nodiscard]] std::int64_t free_virtual_pages() const noexcept { return static_cast<std::int64_t>(free_.size()); }
  /// The lowest free virtual pages, bound to the lowest holes, then to pages at the watermark. The caller has checked that there are enough
  /// of both.
  std::vector<std::int64_t> bind(std::int64_t count);

  /// invalid_argument, naming the id, where one is the sink, outside the table, not bound, or given twice. Nothing changes then.
  [[nodiscard]] Result<> check_bound(std::span<const std::int64_t> ids) const;
  /// The ids' pages become holes. Checked before.
  void unbind(std::span<const std::int64_t> ids);
  /// Moves the watermark down by the number of holes: what is bound in the band that is given up goes into the holes below it, both in
  /// ascending order. Pages in the result are disjoint.
  std::vector<Move> close_holes();

  [[nodiscard]] const std::vector<std::int64_t>& v2p() const noexcept { return v2p_; }  ///< [V + 1], the last one −1.
  [[nodiscard]] const std::vector<std::int64_t>& p2v() const noexcept { return p2v_; }  ///< [P + 1], the last one −1.
  [[nodiscard]] std::int64_t watermark() const noexcept { return watermark_; }
  [[nodiscard]] std::int64_t holes() const noexcept { return static_cast<std::int64_t>(holes_.size()); }
  [[nodiscard]] std::int64_t physical_pages() const noexcept { return static_cast<std::int64_t>(p2v_.size()) - 1; }
  [[nodiscard]] std::int64_t virtual_pages() const noexcept { return static_cast<std::int64_t>(v2p_.size()) - 1; }

 private:
  void bind_pair(std::int64_t virtual_page, std::int64_t physical_page);

  std::vector<std::int64_t> v2p_, p2v_;
  std::set<std::int64_t> free_;   ///< Virtual pages.
  std::set<std::int64_t> holes_;  ///< Physical pages below the watermark.
  std::int64_t watermark_ = 1;
};

}  // namespace kernwright
