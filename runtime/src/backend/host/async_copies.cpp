#include "backend/host/async_copies.hpp"

#include <cstdint>
#include <cstring>

namespace kernwright::host {

const char* AsyncCopies::problem(const void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes) noexcept {
  if (copy_bytes != 4 && copy_bytes != 8 && copy_bytes != 16) return "copies 4, 8 or 16 bytes";
  if (source_bytes > copy_bytes) return "reads at most as many bytes as it copies";
  if (reinterpret_cast<std::uintptr_t>(shared) % copy_bytes != 0) return "needs a shared address aligned to its size";
  if (source_bytes != 0 && reinterpret_cast<std::uintptr_t>(global) % copy_bytes != 0) return "needs a global address aligned to its size";
  return nullptr;
}

void AsyncCopies::add(void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes) {
  queue_.push_back({shared, global, copy_bytes, source_bytes, committed_});
}

void AsyncCopies::wait(unsigned groups_left) {
  if (committed_ <= groups_left) return;
  const unsigned long end = committed_ - groups_left;
  for (; first_ < queue_.size() && queue_[first_].group < end; ++first_) {
    const Copy& copy = queue_[first_];
    if (copy.source_bytes != 0) std::memcpy(copy.to, copy.from, copy.source_bytes);
    std::memset(static_cast<char*>(copy.to) + copy.source_bytes, 0, copy.copy_bytes - copy.source_bytes);
  }
  if (first_ == queue_.size()) {
    queue_.clear();
    first_ = 0;
  } else if (first_ >= 1024) {  // a pipeline never drains its queue: drop the performed front now and then
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void AsyncCopies::clear() noexcept {
  queue_.clear();
  first_ = 0;
  committed_ = 0;
}

}  // namespace kernwright::host
