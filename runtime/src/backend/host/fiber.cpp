#include "backend/host/fiber.hpp"

#include <boost/context/detail/fcontext.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdlib>
#include <utility>

#include "backend/host/sanitizers.hpp"

#if defined(KERNWRIGHT_BUILT_WITH_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kernwright::host {
namespace context = boost::context::detail;

KERNWRIGHT_SWITCHES_FIBERS void SwitchPoint::switch_to(SwitchPoint& to, [[maybe_unused]] bool ends) {
  target_ = &to;
#if defined(KERNWRIGHT_BUILT_WITH_ASAN)
  __sanitizer_start_switch_fiber(ends ? nullptr : &fake_stack_, to.stack_bottom_, to.stack_bytes_);
#endif
  const context::transfer_t transfer = context::jump_fcontext(std::exchange(to.context_, nullptr), this);
  static_cast<SwitchPoint*>(transfer.data)->context_ = transfer.fctx;
  arrived(transfer.data);
}

KERNWRIGHT_SWITCHES_FIBERS void SwitchPoint::arrived([[maybe_unused]] void* from) noexcept {
#if defined(KERNWRIGHT_BUILT_WITH_ASAN)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
  auto* const previous = static_cast<SwitchPoint*>(from);
  if (previous->stack_bottom_ == nullptr) {  // only the sanitizer knows where an OS thread's own stack is
    previous->stack_bottom_ = const_cast<void*>(bottom);
    previous->stack_bytes_ = bytes;
  }
#endif
}

struct Fiber::Entry {
  [[noreturn]] KERNWRIGHT_SWITCHES_FIBERS static void enter(context::transfer_t transfer) {
    auto* const from = static_cast<SwitchPoint*>(transfer.data);
    from->context_ = transfer.fctx;
    auto* const self = static_cast<Fiber*>(from->target_);
    self->arrived(from);
    self->body_(self->argument_);
    std::abort();  // the body's contract: it does not return
  }
};

std::size_t Fiber::stack_bytes() noexcept {
  return kBuiltWithAsan ? std::size_t{1} << 20 : std::size_t{256} << 10;
}

Fiber::Fiber(unsigned index) : shift_(index % 32 * std::size_t{128}) {
  const boost::context::stack_context stack = boost::context::protected_fixedsize_stack(stack_bytes()).allocate();
  stack_top_ = stack.sp;
  stack_bytes_ = stack.size;
  stack_bottom_ = static_cast<char*>(stack.sp) - stack.size;
}

Fiber::~Fiber() {
  boost::context::stack_context stack;
  stack.sp = stack_top_;
  stack.size = stack_bytes_;
#if defined(KERNWRIGHT_BUILT_WITH_ASAN)
  __asan_unpoison_memory_region(stack_bottom_, stack_bytes_);
#endif
  boost::context::protected_fixedsize_stack(stack_bytes_).deallocate(stack);
}

void Fiber::start(Body body, void* argument) noexcept {
#if defined(KERNWRIGHT_BUILT_WITH_ASAN)
  if (context_ != nullptr) {  // the frames that the last computation ended in, or was abandoned in, were never left
    __asan_unpoison_memory_region(context_, static_cast<std::size_t>(static_cast<char*>(stack_top_) - static_cast<char*>(context_)));
  }
  fake_stack_ = nullptr;
#endif
  body_ = body;
  argument_ = argument;
  context_ = context::make_fcontext(static_cast<char*>(stack_top_) - shift_, stack_bytes_ - shift_, &Entry::enter);
}

}  // namespace kernwright::host
