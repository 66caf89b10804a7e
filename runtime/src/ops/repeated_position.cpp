#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "backend/backend.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
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

}  // namespace

Result<std::optional<RepeatedPosition>> find_repeated_position(const Runtime& runtime, DeviceId device, const TensorView& indices,
                                                               const TensorView& topk_length, std::int64_t kv_rows) {
  if (indices.rank != 2 || indices.dtype != DType::i32 || indices.shape[0] < 0 || indices.shape[1] < 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("argument indices: rank {} of {}; legal is a dense [T, K] of i32", indices.rank, to_string(indices.dtype)));
  }
  const std::int64_t tokens = indices.shape[0];
  const std::int64_t topk = indices.shape[1];
  if (topk_length.present() && (topk_length.rank != 1 || topk_length.dtype != DType::i32 || topk_length.shape[0] != tokens)) {
    return fail(ErrorCode::invalid_argument, fmt::format("argument topk_length: legal is [{}] of i32 or absent", tokens));
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

}  // namespace kernwright
