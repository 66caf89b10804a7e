// cp.async of one CUDA thread: copies wait in a queue until a wait_group performs them, so that a missing wait shows as stale bytes.
#pragma once

#include <cstddef>
#include <vector>

namespace kernwright::host {

class AsyncCopies {
 public:
  /// Null, or what is illegal about the copy: PTX ISA, cp.async: 4, 8 or 16 bytes, both addresses aligned to them.
  [[nodiscard]] static const char* problem(const void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes) noexcept;

  void add(void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes);
  void commit() noexcept { ++committed_; }
  /// Performs every committed group but the newest `groups_left`.
  void wait(unsigned groups_left);
  /// Drops what was not waited for, as a thread's end does.
  void clear() noexcept;

 private:
  struct Copy {
    void* to;
    const void* from;
    unsigned copy_bytes;
    unsigned source_bytes;
    unsigned long group;
  };
  std::vector<Copy> queue_;
  std::size_t first_ = 0;
  unsigned long committed_ = 0;
};

}  // namespace kernwright::host
