// The pools that `run paged-kv` works on, static or unified, with all of a pool's bytes to look at.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernwright/unified_pool.hpp"
#include "paged_kv_input.hpp"

namespace kernwright::tool {

/// A pool in which every virtual page of the input is bound. Zeros, at first.
class PagedKvPool {
 public:
  static Result<PagedKvPool> create(const Runtime& runtime, DeviceId device, const PagedKvInput& input, PoolKind kind);

  [[nodiscard]] PoolKind kind() const { return unified_ ? PoolKind::unified_mla : PoolKind::static_pool; }
  [[nodiscard]] const PagedKv& kernels() const { return unified_ ? unified_->kernels() : *static_kernels_; }
  [[nodiscard]] PoolHooks hooks() const;
  [[nodiscard]] std::int64_t layers() const { return unified_ ? input_->layers : 1; }
  [[nodiscard]] TensorView view(std::int64_t layer) const;
  /// Null in a static pool.
  [[nodiscard]] UnifiedPool* unified() { return unified_ ? &*unified_ : nullptr; }
  [[nodiscard]] void* base() const { return view(0).data; }
  [[nodiscard]] Bytes page_bytes() const;

  /// The reference's idea of the ids, from the tables as they are on the device now.
  [[nodiscard]] Result<support::PagedIds> ids() const;
  /// All elements, from the first page to the end of the last layer's view.
  [[nodiscard]] Result<std::vector<std::uint16_t>> elements() const;
  /// Where a layer's view begins among them.
  [[nodiscard]] std::int64_t first_element(std::int64_t layer) const { return layer * input_->page_size * input_->d_qk; }

  /// Virtual pages that no request has, in ascending order: free to be moved into, or to be given back.
  [[nodiscard]] const std::vector<std::int64_t>& unused_pages() const { return unused_; }

 private:
  PagedKvPool(const Runtime& runtime, DeviceId device, const PagedKvInput& input) : runtime_(runtime), device_(device), input_(&input) {}
  Result<> make_static();
  Result<> make_unified();

  Runtime runtime_;
  DeviceId device_;
  const PagedKvInput* input_;
  std::optional<UnifiedPool> unified_;
  std::optional<PagedKv> static_kernels_;
  DeviceBuffer static_rows_;
  std::vector<std::int64_t> unused_;
};

}  // namespace kernwright::tool
