// Tells a forked child from the process that made the runtime, at the cost of one load.
#pragma once

#include "kernwright/result.hpp"

namespace kernwright {

/// A page that the kernel empties in a child (madvise(2), MADV_WIPEONFORK). Where that is not to be had, no child is told apart.
class ForkGuard {
 public:
  ForkGuard() noexcept;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

  [[nodiscard]] bool in_child() const noexcept { return page_ != nullptr && *page_ == 0; }
  /// unsupported in a child: the parent's threads, which may have held locks, are not there, and a CUDA context does not cross a fork.
  [[nodiscard]] Result<> check() const;

 private:
  volatile unsigned char* page_ = nullptr;
};

}  // namespace kernwright
