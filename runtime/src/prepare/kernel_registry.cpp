#include "prepare/kernel_registry.hpp"

#include <functional>
#include <string_view>

namespace kernwright {
namespace {

class Hash {
 public:
  void add(std::uint64_t value) noexcept { state_ = (state_ ^ value) * kPrime; }  // as FNV-1a does, by words
  void add(std::string_view text) noexcept { add(std::hash<std::string_view>{}(text)); }
  void add(const std::optional<Tile>& tile) noexcept {
    if (!tile) return add(0);
    add(tile->variant);
    for (const int part : {tile->block_m, tile->block_n, tile->stages, tile->warps}) add(static_cast<std::uint64_t>(part));
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t state_ = 0xcbf29ce484222325;
};

std::uint64_t hash_of(const PrepareRequest& request) noexcept {
  Hash hash;
  hash.add(request.template_name);
  for (const Specialisation::Item& item : request.specialisation.items()) {
    hash.add(item.name);
    hash.add(std::hash<ParameterValue>{}(item.value));
  }
  hash.add(static_cast<std::uint64_t>(request.device.backend) << 32U | static_cast<std::uint32_t>(request.device.ordinal));
  hash.add(request.tile);
  hash.add(request.params_bytes);
  hash.add(request.after);
  return hash.value();
}

}  // namespace

const Kernel* KernelRegistry::known(std::uint64_t hash, const PrepareRequest& request) const {
  const auto [first, last] = kernels_.equal_range(hash);
  for (auto each = first; each != last; ++each) {
    if (each->second.request == request) return &each->second.kernel;
  }
  return nullptr;
}

std::optional<Kernel> KernelRegistry::find(const PrepareRequest& request) const {
  const std::uint64_t hash = hash_of(request);
  const std::lock_guard lock(mutex_);
  const Kernel* const kernel = known(hash, request);
  return kernel == nullptr ? std::nullopt : std::optional<Kernel>(*kernel);
}

Kernel KernelRegistry::add(const PrepareRequest& request, const Kernel& kernel) {
  const std::uint64_t hash = hash_of(request);
  const std::lock_guard lock(mutex_);
  if (const Kernel* const earlier = known(hash, request)) return *earlier;
  kernels_.emplace(hash, Known{request, kernel});
  return kernel;
}

}  // namespace kernwright
