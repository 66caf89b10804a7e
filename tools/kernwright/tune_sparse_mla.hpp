// kernwright tune sparse-mla
#pragma once

#include <string>

#include "sparse_mla_points.hpp"
#include "tune.hpp"

namespace kernwright::tool {

/// The words as they were given.
struct TuneSparseMlaWords {
  TuneWords tune;
  SparseMlaPointWords points;         ///< But for the seed, which is the tuning's.
  std::string heads = "8,16";         ///< Numbers and ranges.
  std::string unions = "0,2,4,8,16";  ///< Comma-separated.
};
ExitCode tune_sparse_mla(const TuneSparseMlaWords& words);

}  // namespace kernwright::tool
