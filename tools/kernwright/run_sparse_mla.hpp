// kernwright run sparse-mla
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "console.hpp"

namespace kernwright::tool {

struct RunSparseMlaOptions {
  OutputOptions output;
  std::string input_file;              ///< Empty: generated.
  std::string output_file;             ///< Empty: none.
  std::optional<std::int64_t> tokens;  ///< Of a request. Each empty one has a default that depends on the device.
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_rows;
  std::optional<std::int64_t> topk;
  std::optional<double> churn;
  std::optional<std::uint64_t> seed;
  std::string union_word;       ///< Empty: as a recording says, else auto.
  std::string tile;             ///< Empty: as a recording says, else from the tuning tables.
  std::string target;           ///< Empty: KERNWRIGHT_TARGET, else auto.
  std::string template_folder;  ///< Laid over the built-in templates; empty: those alone.
  std::string write_list;       ///< The file for the launch list of what was prepared; empty: none.
  bool deterministic = false;
  bool check = false;
};

ExitCode run_sparse_mla(const RunSparseMlaOptions& options);

}  // namespace kernwright::tool
