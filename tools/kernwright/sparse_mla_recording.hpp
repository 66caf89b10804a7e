// What a recording of sparse MLA prefill says beside the arguments, and how a replay is compared with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/tile.hpp"
#include "support/bf16.hpp"
#include "support/safetensors.hpp"

namespace kernwright::tool {

/// Strides in elements, as the recorded call had them.
struct SparseMlaStrides {
  std::int64_t q_token = 0, q_head = 0, kv_row = 0, out_token = 0, out_head = 0;
};
SparseMlaStrides dense_strides(std::int64_t heads, std::int64_t d_qk);

/// docs/recordings.md has the file's form.
struct SparseMlaRecording {
  std::string target;
  Tile tile;
  int union_used = 0;
  bool deterministic = false;
  std::vector<support::Bf16> out;      ///< Empty: the file does not hold it.
  std::vector<float> max_logits, lse;  ///< Empty: not asked for.
};

/// Nothing where the file is no recording. malformed names what is off.
Result<std::optional<SparseMlaRecording>> read_recording(const support::SafetensorsFile& file, std::int64_t tokens, std::int64_t heads);
/// Those of the metadata, else dense ones. Strides that would take many times the tensors' memory count as dense.
Result<SparseMlaStrides> read_strides(const support::SafetensorsFile& file, std::int64_t tokens, std::int64_t heads, std::int64_t kv_rows,
                                      std::int64_t d_qk);

struct HostOutput {
  std::vector<support::Bf16> out;
  std::vector<float> max_logits, lse;
};

/// A replay's output beside the recorded one.
struct RecordedComparison {
  bool same_kernel = false;  ///< Same target, tile and union: then the bits must be the same.
  std::string difference;    ///< What is not the same, in words.
  std::int64_t elements = 0, differing = 0;
  double largest_difference = 0;  ///< Of out.
  std::string first;              ///< The first element whose bits differ.
  std::string recorded_failure;   ///< Where the kernels differ: what the CPU reference says against the recorded output; empty: nothing.
  [[nodiscard]] bool passed() const { return same_kernel ? differing == 0 : recorded_failure.empty(); }
};
/// Bits against bits; nothing but sizes is assumed of the values.
RecordedComparison compare_bits(const SparseMlaRecording& recorded, const HostOutput& replayed, std::int64_t heads);

}  // namespace kernwright::tool
