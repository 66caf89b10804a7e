// How sparse MLA prefill is timed: inputs that are rotated past the L2 cache, events around the op, hopeless runs cut short.
#pragma once

#include <vector>

#include "kernwright/sparse_mla_prefill.hpp"
#include "sparse_mla_points.hpp"
#include "sparse_mla_tensors.hpp"
#include "timing_options.hpp"

namespace kernwright::tool {

/// `first` and as many others of its shape in device memory that no timed run finds in the L2 cache what an earlier one left there. One
/// from a file is placed several times.
Result<std::vector<DeviceTensors>> place_rotated(const Runtime& runtime, DeviceId device, const PointSpec& spec,
                                                 const SparseMlaInput& first, Bytes workspace);

struct Timing {
  std::vector<double> total_ms;                ///< Of each repetition, from before the first launch to behind the last.
  std::vector<std::vector<double>> launch_ms;  ///< The same for each launch of the op.
  bool given_up = false;                       ///< Then samples of warm-ups may be among total_ms.
};
/// Each repetition takes the next input. `inputs` are of one shape and have workspace enough.
Result<Timing> time_op(const Runtime& runtime, DeviceId device, const SparseMlaPrefill& op, const std::vector<DeviceTensors>& inputs,
                       const TimingOptions& options);

/// Runs the op once on outputs full of NaNs and fetches what it wrote.
Result<HostOutput> run_once(const Runtime& runtime, DeviceId device, const SparseMlaPrefill& op, DeviceTensors& tensors,
                            const SparseMlaInput& input);

}  // namespace kernwright::tool
