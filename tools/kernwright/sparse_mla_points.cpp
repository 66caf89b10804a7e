#include "sparse_mla_points.hpp"

#include <fmt/format.h>

#include <charconv>

#include "support/format.hpp"

namespace kernwright::tool {
namespace {

tl::unexpected<Error> bad_word(std::string_view option, std::string_view word, std::string_view legal) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} {}: legal is {}", option, word, legal));
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::vector<PointSpec>> point_specs(const SparseMlaPointWords& words, bool on_gpu) {
  std::vector<PointSpec> specs;
  for (const std::string& file : words.inputs) specs.push_back({file, std::nullopt, file});
  if (!specs.empty()) return specs;
  const std::string shapes = !words.shapes.empty() ? words.shapes : on_gpu ? "1x2048,1x4096,1x8192,2x4096,4x2048" : "1x64,2x32";
  const std::string churns = !words.churns.empty() ? words.churns : on_gpu ? "0.02,0.05,0.10" : "0.05";
  const std::int64_t topk = words.topk.value_or(on_gpu ? 2048 : 32);
  for (const std::string& churn_word : support::split(churns, ',')) {
    double churn = 0;
    if (!parse_whole(churn_word, churn)) return bad_word("--churn", churn_word, "numbers from 0 to 1, comma-separated");
    for (const std::string& shape : support::split(shapes, ',')) {
      const std::size_t cross = shape.find('x');
      support::WalkOptions walk;
      walk.topk = topk;
      walk.churn = churn;
      walk.seed = words.seed;
      if (cross == std::string::npos || !parse_whole(std::string_view(shape).substr(0, cross), walk.batch) ||
          !parse_whole(std::string_view(shape).substr(cross + 1), walk.tokens)) {
        return bad_word("--shapes", shape, "requests x tokens, such as 1x8192,4x2048");
      }
      specs.push_back({fmt::format("{} churn {}", shape, churn_word), walk, {}});
    }
  }
  const std::int64_t spread_rows = words.spread_rows.value_or(on_gpu ? 131'072 : 0);
  if (spread_rows > 0) {
    support::WalkOptions walk;
    walk.tokens = on_gpu ? 8192 : 64;
    walk.topk = topk;
    walk.kv_rows = spread_rows;
    walk.seed = words.seed;
    specs.push_back({fmt::format("1x{} over {}", walk.tokens, spread_rows), walk, {}});
  }
  return specs;
}

Result<SparseMlaInput> make_input(const PointSpec& spec, std::int64_t heads, int rotation) {
  if (!spec.walk) return read_sparse_mla_input(spec.file);
  support::WalkOptions walk = *spec.walk;
  walk.seed += static_cast<std::uint64_t>(rotation);
  return generate_sparse_mla_input(walk, heads);
}

}  // namespace kernwright::tool
