#include "robustness/scale_launch.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <span>

#include "cases/scale_template.hpp"

namespace kernwright::robustness {
namespace {

constexpr const char* kAsked = "plain:m1n1024s1w1";
constexpr const char* kFits = "plain:m1n200s1w1";
constexpr std::size_t kCount = 50;  // two blocks, the second one not full

}  // namespace

Result<Kernel> launch_scale(const Runtime& runtime, std::int64_t factor) {
  if (auto added = runtime.register_template(cases::scale_template()); !added) return fail(std::move(added.error()));
  auto kernel = runtime.prepare({"test/scale", Specialisation{}.set("factor", factor), DeviceId::host(), *Tile::parse(kAsked),
                                 sizeof(cases::ScaleParams), std::nullopt});
  if (!kernel) return kernel;
  if (kernel->report().tile_fitted.text() != kFits) {
    return fail(ErrorCode::internal, fmt::format("tile {} fitted, {} should have", kernel->report().tile_fitted.text(), kFits));
  }
  std::array<float, kCount> in{};
  std::array<float, kCount> out{};
  for (std::size_t i = 0; i < kCount; ++i) in.at(i) = static_cast<float>(i) - 20.0F;
  const cases::ScaleParams params{in.data(), out.data(), kCount};
  const auto threads = static_cast<std::size_t>(kernel->plan().threads);
  const auto blocks = static_cast<std::uint32_t>((kCount + threads - 1) / threads);
  if (auto launched = kernel->launch(Grid{blocks, 1, 1}, params, {}); !launched) return fail(std::move(launched.error()));
  for (std::size_t i = 0; i < kCount; ++i) {
    const float right = static_cast<float>(factor) * (static_cast<float>(i) - 20.0F);
    if (out.at(i) != right) return fail(ErrorCode::internal, fmt::format("number {} came out as {}, right is {}", i, out.at(i), right));
  }
  return kernel;
}

}  // namespace kernwright::robustness
