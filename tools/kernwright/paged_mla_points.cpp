#include "paged_mla_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "support/format.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kMostHeads = 128, kMostRequests = 65'536, kMostTokens = 1 << 24;

bool parse(std::string_view text, std::int64_t most, std::int64_t& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most;
}

/// "16x32768" into the point's batch and tokens.
bool parse_requests(std::string_view text, PagedMlaPoint& point) {
  const std::size_t cross = text.find('x');
  return cross != std::string_view::npos && parse(text.substr(0, cross), kMostRequests, point.batch) &&
         parse(text.substr(cross + 1), kMostTokens, point.tokens);
}

}  // namespace

std::string PagedMlaPoint::name() const {
  return fmt::format("{}:{}x{}", heads, batch, tokens);
}

std::string PagedMlaPoint::batch_name() const {
  return fmt::format("{}x{}", batch, tokens);
}

Result<std::vector<PagedMlaPoint>> paged_mla_points(std::string_view words) {
  std::vector<PagedMlaPoint> points;
  for (const std::string& word : support::split(words, ',')) {
    PagedMlaPoint point;
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos || !parse(std::string_view(word).substr(0, colon), kMostHeads, point.heads) ||
        !parse_requests(std::string_view(word).substr(colon + 1), point)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--points '{}': legal is heads:requests x tokens, such as 8:16x32768,128:64x4096, with up to {} heads, {} "
                              "requests and {} tokens",
                              word, kMostHeads, kMostRequests, kMostTokens));
    }
    points.push_back(point);
  }
  if (points.empty()) return fail(ErrorCode::invalid_argument, "--points '': legal is at least one, such as 8:16x32768");
  return points;
}

Result<std::vector<PagedMlaPoint>> paged_mla_batches(std::string_view words) {
  std::vector<PagedMlaPoint> batches;
  for (const std::string& word : support::split(words, ',')) {
    PagedMlaPoint batch;
    if (!parse_requests(word, batch)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--shapes '{}': legal is requests x tokens, such as 1x4096,16x32768, with up to {} requests and {} tokens",
                              word, kMostRequests, kMostTokens));
    }
    const auto same = [&](const PagedMlaPoint& other) { return other.batch == batch.batch && other.tokens == batch.tokens; };
    if (std::ranges::none_of(batches, same)) batches.push_back(batch);
  }
  if (batches.empty()) return fail(ErrorCode::invalid_argument, "--shapes '': legal is at least one, such as 16x32768");
  return batches;
}

Result<PagedMlaPoint> block_table_point(std::string_view word) {
  PagedMlaPoint point;
  if (parse_requests(word, point)) return point;
  return fail(ErrorCode::invalid_argument, fmt::format("--block-table '{}': legal is requests x tokens, such as 256x131072", word));
}

}  // namespace kernwright::tool
