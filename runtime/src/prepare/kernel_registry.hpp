// Kernels prepared so far, by everything that a PrepareRequest says.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "kernwright/runtime.hpp"

namespace kernwright {

/// Thread-safe. A look-up makes no string and allocates nothing.
class KernelRegistry {
 public:
  [[nodiscard]] std::optional<Kernel> find(const PrepareRequest& request) const;
  /// The kernel that counts from now on: an earlier one where another thread was quicker.
  Kernel add(const PrepareRequest& request, const Kernel& kernel);

 private:
  struct Known {
    PrepareRequest request;
    Kernel kernel;
  };
  [[nodiscard]] const Kernel* known(std::uint64_t hash, const PrepareRequest& request) const;

  mutable std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, Known> kernels_;
};

}  // namespace kernwright
