#include "prepare/fork_guard.hpp"

#include <sys/mman.h>

namespace kernwright {
namespace {

constexpr std::size_t kPage = 4096;  // any size: the kernel rounds up

}  // namespace

ForkGuard::ForkGuard() noexcept {
  void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPage, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPage);
    return;
  }
  page_ = static_cast<unsigned char*>(page);
  *page_ = 1;
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) ::munmap(const_cast<unsigned char*>(page_), kPage);
}

Result<> ForkGuard::check() const {
  if (!in_child()) return {};
  return fail(
      ErrorCode::unsupported,
      "this process was forked from the one that made the runtime; make a new Runtime here (kernels that were prepared before the fork "
      "for a CUDA device do not work here either, since a CUDA context does not cross a fork)");
}

}  // namespace kernwright
