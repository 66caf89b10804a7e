#include "backend/host/single_thread.hpp"

#include <cstdint>
#include <cstring>

#include "backend/host/aligned_buffer.hpp"
#include "backend/host/async_copies.hpp"
#include "backend/host/block_state.hpp"
#include "backend/host/fault.hpp"

namespace kernwright::host {
namespace {

using kw::simt::Location;
using kw::simt::ThreadContext;

struct SingleThread {
  explicit SingleThread(std::string& words) noexcept
      : problem(words) {}  // leaves `exchanged` as it is: clearing it would cost more than a launch
  std::string& problem;
  AsyncCopies copies;
  alignas(64) std::byte exchanged[std::size_t{kw::simt::kWarpSize} * kw::simt::kMaxExchangeBytes];
};

SingleThread& self(ThreadContext* context) noexcept {
  return *static_cast<SingleThread*>(context->scheduler);
}

/// The words for what went wrong are those of every other block.
BlockState block_of(const ThreadContext* context) {
  BlockState block;
  block.reset(context->block, 1);
  return block;
}

void barrier(ThreadContext* context, unsigned id, unsigned threads, Location where) {
  if (id < NamedBarrier::kCount && threads == 1) return;
  BlockState block = block_of(context);
  static_cast<void>(block.arrive_at_barrier(0, id, threads, where, self(context).problem));
  throw ThreadAbandoned();
}

const void* exchange(ThreadContext* context, const void* mine, unsigned bytes, unsigned mask, Location where) {
  if ((mask & 1U) == 0) {
    BlockState block = block_of(context);
    static_cast<void>(block.arrive_at_collective(0, mine, bytes, mask, where, self(context).problem));
    throw ThreadAbandoned();
  }
  if (bytes == 0) return nullptr;
  return std::memcpy(self(context).exchanged, mine, bytes);
}

void async_copy(ThreadContext* context, void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes, Location where) {
  if (AsyncCopies::problem(shared, global, copy_bytes, source_bytes) != nullptr) {
    self(context).problem = block_of(context).async_copy_problem(0, shared, global, copy_bytes, source_bytes, where);
    throw ThreadAbandoned();
  }
  self(context).copies.add(shared, global, copy_bytes, source_bytes);
}
void async_commit(ThreadContext* context) {
  self(context).copies.commit();
}
void async_wait(ThreadContext* context, unsigned groups_left) {
  self(context).copies.wait(groups_left);
}

constexpr kw::simt::Primitives kPrimitives{barrier, exchange, async_copy, async_commit, async_wait};

bool run_with(const LaunchRequest& request, void* shared, std::string& problem) {
  if (request.dynamic_shared_bytes != 0) std::memset(shared, kUnwrittenShared, request.dynamic_shared_bytes);
  SingleThread thread(problem);
  ThreadContext context = request.context({0, 0, 0}, kPrimitives);
  context.dynamic_shared = shared;
  context.scheduler = &thread;
  try {
    request.object->run(&context, request.params);
  } catch (const ThreadAbandoned&) {
    return false;
  }
  return true;
}

__attribute__((noinline)) bool run_on_stack(const LaunchRequest& request, std::string& problem, std::size_t capacity) {
  auto* const raw = static_cast<char*>(__builtin_alloca(capacity + kSharedAlignment));
  const auto misaligned = reinterpret_cast<std::uintptr_t>(raw) % kSharedAlignment;
  return run_with(request, raw + (misaligned == 0 ? 0 : kSharedAlignment - misaligned), problem);
}

}  // namespace

bool run_single_thread(const LaunchRequest& request, std::string& problem) {
  constexpr std::size_t kOnStack = std::size_t{16} << 10;
  if (request.dynamic_shared_bytes == 0) return run_with(request, nullptr, problem);
  if (request.dynamic_shared_bytes <= kOnStack) return run_on_stack(request, problem, request.dynamic_shared_bytes);
  const AlignedBuffer shared(kSharedAlignment, request.dynamic_shared_bytes);
  return run_with(request, shared.data(), problem);
}

}  // namespace kernwright::host
