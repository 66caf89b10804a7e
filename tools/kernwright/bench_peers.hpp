// Times of other implementations, to be shown beside ours.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright::tool {

struct BenchPeer {
  std::string name, file;
  std::map<std::string, double> median_ms;  ///< By the shape's name.
  /// 0 where the peer has no such shape.
  [[nodiscard]] double median_of(const std::string& shape) const {
    const auto found = median_ms.find(shape);
    return found == median_ms.end() ? 0 : found->second;
  }
};

/// JSON: {"name": "…", "points": [{"name": "1x8192 churn 0.05", "median_ms": 0.9}, …]}, or what bench --json wrote, which is called by its
/// file's name. Errors: not_found, io; malformed says what is missing.
Result<BenchPeer> read_peer(const std::string& file);

}  // namespace kernwright::tool
