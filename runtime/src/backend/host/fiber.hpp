// A fiber: a stack that computation can be left on and come back to, on one OS thread at a time.
#pragma once

#include <cstddef>

namespace kernwright::host {

/// A place that computation can be switched to: a fiber, or the OS thread's own stack.
class SwitchPoint {
 public:
  SwitchPoint() = default;
  SwitchPoint(const SwitchPoint&) = delete;
  SwitchPoint& operator=(const SwitchPoint&) = delete;

  /// Leaves the running point `this` for `to`, and returns when somebody switches back. `ends`: nobody will.
  void switch_to(SwitchPoint& to, bool ends = false);

 protected:
  ~SwitchPoint() = default;
  void arrived(void* from) noexcept;

  void* context_ = nullptr;  // fcontext_t: where the stack pointer was when this point was left
  SwitchPoint* target_ = nullptr;
  void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  friend class Fiber;
};

/// The OS thread's own stack, for as long as one block runs on it.
class OwnStack final : public SwitchPoint {};

class Fiber final : public SwitchPoint {
 public:
  /// Address space, not memory: pages appear when they are touched. AddressSanitizer's frames are larger.
  static std::size_t stack_bytes() noexcept;

  /// `index` shifts where the stack is used from: stacks lie a multiple of a page apart, and without the shift the busy ends of all of
  /// them would share a few cache lines. Throws std::bad_alloc.
  explicit Fiber(unsigned index);
  ~Fiber();

  /// Puts `body(argument)` on the fresh stack, to run at the next switch to it. What was on the stack is abandoned. The body ends by
  /// switching away for good.
  using Body = void (*)(void* argument);
  void start(Body body, void* argument) noexcept;

 private:
  struct Entry;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  void* stack_top_ = nullptr;
  std::size_t shift_ = 0;
};

}  // namespace kernwright::host
