// A problem in device memory: what `run` and `bench` hand to the op.
#pragma once

#include <span>
#include <vector>

#include "kernwright/sparse_mla_prefill.hpp"
#include "sparse_mla_input.hpp"
#include "support/sparse_mla_check.hpp"

namespace kernwright::tool {

inline constexpr std::int64_t kValueColumns = 512;

/// Input, outputs and workspace in device memory, and the arguments that name them.
struct DeviceTensors {
  DeviceBuffer q, kv, indices, topk_length, attn_sink, out, max_logits, lse, workspace;
  SparseMlaPrefillArguments arguments;
};

/// Uploads the input, with the strides that it asks for, and allocates outputs and workspace. What no launch writes holds NaNs, so that it
/// does not pass for a zero.
Result<DeviceTensors> place(const Runtime& runtime, DeviceId device, const SparseMlaInput& input, Bytes workspace);
/// Fills the outputs with NaNs again.
Result<> clear_outputs(DeviceTensors& tensors);
/// Has at least so much workspace.
Result<> grow_workspace(const Runtime& runtime, DeviceId device, DeviceTensors& tensors, Bytes workspace);
Result<HostOutput> fetch(const DeviceTensors& tensors, const SparseMlaInput& input);

/// The reference for some tokens, with repeated positions weighed as an op with this union weighs them.
support::SparseMlaReference reference_of(const SparseMlaInput& input, std::span<const std::int64_t> tokens, int union_used);
/// The reference of the checked tokens against an output; `union_used` decides which tokens and how repeated positions weigh.
struct CheckedOutput {
  support::SparseMlaCheck check;
  std::int64_t tokens = 0;
};
CheckedOutput check_output(const SparseMlaInput& input, const HostOutput& output, int union_used, std::uint64_t seed);

}  // namespace kernwright::tool
