#include "bench_peers.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "platform/file_system.hpp"

namespace kernwright::tool {
namespace {

constexpr Bytes kLargestPeerFile = mebibytes(256);

}  // namespace

Result<BenchPeer> read_peer(const std::string& file) {
  const auto content = FileSystem::posix()->read(file, kLargestPeerFile);
  if (!content) return fail(Error(content.error()).within("reading --peers"));
  const auto malformed = [&](std::string_view problem) {
    return fail(ErrorCode::malformed, fmt::format("--peers {}: {}; legal is {{\"name\": text, \"points\": [{{\"name\": a shape's, "
                                                  "\"median_ms\": number}}, …]}}, or a file of bench --json",
                                                  file, problem));
  };
  const auto json = nlohmann::json::parse(as_text(*content), nullptr, false);
  if (!json.is_object()) return malformed("it is no JSON object");
  BenchPeer peer;
  peer.file = file;
  peer.name =
      json.contains("name") && json["name"].is_string() ? json["name"].get<std::string>() : std::filesystem::path(file).stem().string();
  if (!json.contains("points") || !json["points"].is_array()) return malformed("it has no array 'points'");
  for (const auto& point : json["points"]) {
    if (!point.is_object() || !point.contains("name") || !point["name"].is_string()) return malformed("a point has no name");
    const auto name = point["name"].get<std::string>();
    // bench --json has the median among the figures of "total".
    const auto& holder = point.contains("total") && point["total"].is_object() ? point["total"] : point;
    const auto median = holder.find("median_ms");
    if (median == holder.end() || !median->is_number() || !std::isfinite(median->get<double>()) || median->get<double>() < 0) {
      return malformed(fmt::format("point '{}' has no median_ms of 0 or more", name));
    }
    if (!peer.median_ms.emplace(name, median->get<double>()).second) return malformed(fmt::format("point '{}' is there twice", name));
  }
  return peer;
}

}  // namespace kernwright::tool
