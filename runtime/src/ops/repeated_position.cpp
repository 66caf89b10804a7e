#include <algorithm>
#include <array>
#include <unordered_map>

#include "backend/backend.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "ops/tensor_check.hpp"
#include "prepare/boundary.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {
namespace {

Result<std::vector<std::int32_t>> fetch(Backend& backend, DeviceId device, const TensorView& view, std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  if (count == 0) return values;
  if (auto copied = backend.copy_from_device(device, std::as_writable_bytes(std::span(values)), view.data); !copied) {
    return fail(std::move(copied.error()));
  }
  return values;
}

Result<std::optional<RepeatedPosition>> look_for_repetition(const Runtime& runtime, DeviceId device, const TensorView& indices,
                                                            const TensorView& topk_length, std::int64_t kv_rows) {
  if (auto known = runtime.device(device); !known) return fail(std::move(known.error()));
  constexpr std::uintptr_t kWordBytes = 4;
  const std::array<std::int64_t, 2> index_shape{-1, -1};
  if (auto r = check_tensor(indices, {"indices", DType::i32, index_shape, true, 1, kWordBytes}); !r) return fail(std::move(r.error()));
  const std::int64_t tokens = indices.shape[0];
  const std::int64_t topk = indices.shape[1];
  const std::array<std::int64_t, 1> token_shape{tokens};
  if (topk_length.present()) {
    if (auto r = check_tensor(topk_length, {"topk_length", DType::i32, token_shape, true, 1, kWordBytes}); !r)
      return fail(std::move(r.error()));
  }
  Backend& backend = *runtime.state().backend(device.backend);
  auto positions = fetch(backend, device, indices, tokens * topk);
  if (!positions) return fail(std::move(positions.error()));
  std::vector<std::int32_t> lengths;
  if (topk_length.present()) {
    auto fetched = fetch(backend, device, topk_length, tokens);
    if (!fetched) return fail(std::move(fetched.error()));
    lengths = std::move(*fetched);
  }
  std::unordered_map<std::int32_t, std::int64_t> first_slots;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t length = lengths.empty() ? topk : std::clamp<std::int64_t>(lengths[static_cast<std::size_t>(token)], 0, topk);
    first_slots.clear();
    for (std::int64_t slot = 0; slot < length; ++slot) {
      const std::int32_t position = (*positions)[static_cast<std::size_t>(token * topk + slot)];
      if (position < 0 || position >= kv_rows) continue;
      const auto [seen, inserted] = first_slots.emplace(position, slot);
      if (!inserted) return std::optional(RepeatedPosition{token, position, seen->second, slot});
    }
  }
  return std::optional<RepeatedPosition>{};
}

}  // namespace

Result<std::optional<RepeatedPosition>> find_repeated_position(const Runtime& runtime, DeviceId device, const TensorView& indices,
                                                               const TensorView& topk_length, std::int64_t kv_rows) {
  return without_exceptions([&] { return look_for_repetition(runtime, device, indices, topk_length, kv_rows); });
}

}  // namespace kernwright
