// The input of `run sparse-mla`: read from a file, or generated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sparse_mla_recording.hpp"
#include "support/index_walk.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::tool {

/// Everything in host memory. Movable: problem() makes the views anew.
struct SparseMlaInput {
  std::int64_t tokens = 0, heads = 0, kv_rows = 0, topk = 0, d_qk = 576;
  std::vector<support::Bf16> q, kv;
  std::vector<std::int32_t> indices, topk_length;  ///< topk_length empty: absent.
  std::vector<float> attn_sink;                    ///< Empty: absent.
  float sm_scale = 0;
  SparseMlaStrides strides;                    ///< In device memory; here everything is dense.
  std::optional<SparseMlaRecording> recorded;  ///< Where it is a recording.
  std::string description;                     ///< Where it comes from, for people.

  [[nodiscard]] support::SparseMlaProblem problem() const;
};

/// Tensors q [T, H, d_qk] BF16, kv [S, d_qk] BF16, indices [T, K] I32, optionally topk_length [T] I32 and attn_sink [H] F32; sm_scale from
/// the metadata of that name, else d_qk^(-1/2). Of a recording its outputs and metadata are read too; others in a file are ignored. Errors:
/// see SafetensorsFile::open; malformed names the tensor, what came and what is legal; out_of_memory.
enum class SparseMlaParts : std::uint8_t {
  all,
  selection,  ///< indices and topk_length alone are read; q, kv and outputs stay empty, though the file must have them.
};
Result<SparseMlaInput> read_sparse_mla_input(const std::filesystem::path& path, SparseMlaParts parts = SparseMlaParts::all);

/// q and kv of N(0, 1), indices a walk, sm_scale d_qk^(-1/2). Errors: see make_walk; out_of_memory.
Result<SparseMlaInput> generate_sparse_mla_input(const support::WalkOptions& walk, std::int64_t heads);

}  // namespace kernwright::tool
