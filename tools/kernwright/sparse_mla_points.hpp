// The shapes that `bench` and `tune` measure: from words of the command line to inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sparse_mla_input.hpp"

namespace kernwright::tool {

/// The words as they were given.
struct SparseMlaPointWords {
  std::string shapes;                       ///< "1x2048,4x2048": requests x tokens of each. Empty: the device's default.
  std::string churns;                       ///< "0.02,0.05,0.10". Empty: the device's default.
  std::vector<std::string> inputs;          ///< safetensors files in place of shapes and churns.
  std::optional<std::int64_t> spread_rows;  ///< S of one more point whose selections are spread over so many rows; 0: none.
  std::optional<std::int64_t> topk;
  std::uint64_t seed = 1;
};

struct PointSpec {
  std::string name;                          ///< "1x8192 churn 0.05", or the file's.
  std::optional<support::WalkOptions> walk;  ///< Empty: the file.
  std::string file;
};

/// Every shape with every churn, then the point that is spread over many rows; or the files. invalid_argument names the word.
Result<std::vector<PointSpec>> point_specs(const SparseMlaPointWords& words, bool on_gpu);

/// The point's input; another one of the same shape for each `rotation`, but where it is a file's.
Result<SparseMlaInput> make_input(const PointSpec& spec, std::int64_t heads, int rotation);

}  // namespace kernwright::tool
