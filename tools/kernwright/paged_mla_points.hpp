// The shapes that `bench paged-mla` and `tune paged-mla` measure: from words of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright::tool {

/// A batch of requests of equal length.
struct PagedMlaPoint {
  std::int64_t heads = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  [[nodiscard]] std::string name() const;        ///< "8:16x32768", as it is written on the command line.
  [[nodiscard]] std::string batch_name() const;  ///< "16x32768": without the heads.
};

/// "8:16x32768,128:64x32768": heads, requests, tokens of each. invalid_argument names the word.
Result<std::vector<PagedMlaPoint>> paged_mla_points(std::string_view words);

/// "1x4096,16x32768": requests and tokens of each, each once, for any number of heads. invalid_argument as above.
Result<std::vector<PagedMlaPoint>> paged_mla_batches(std::string_view words);

/// "256x131072": requests and tokens of each, for the block table. invalid_argument as above.
Result<PagedMlaPoint> block_table_point(std::string_view word);

}  // namespace kernwright::tool
