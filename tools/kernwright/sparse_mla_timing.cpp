#include "sparse_mla_timing.hpp"

#include <algorithm>
#include <cmath>

namespace kernwright::tool {
namespace {

/// What a point's inputs come to at least, so that a later one finds nothing of an earlier one in any present device's L2 cache.
constexpr double kRotatedBytes = 256e6;
constexpr int kMostInputs = 12;

double input_bytes(const SparseMlaInput& input) {
  return 2.0 * static_cast<double>(input.q.size() + input.kv.size()) + 4.0 * static_cast<double>(input.indices.size()) +
         2.0 * static_cast<double>(input.tokens * input.heads * kValueColumns);
}

}  // namespace

Result<std::vector<DeviceTensors>> place_rotated(const Runtime& runtime, DeviceId device, const PointSpec& spec,
                                                 const SparseMlaInput& first, Bytes workspace) {
  const bool on_gpu = device.backend == BackendKind::cuda;
  const double bytes = std::max(input_bytes(first), 1.0);
  const int count = on_gpu ? std::clamp(static_cast<int>(std::ceil(kRotatedBytes / bytes)), 2, kMostInputs) : 2;
  std::vector<DeviceTensors> inputs;
  for (int i = 0; i < count; ++i) {
    auto other = i == 0 || !spec.walk ? Result<SparseMlaInput>(first) : make_input(spec, first.heads, i);
    if (!other) return fail(std::move(other.error()));
    auto placed = place(runtime, device, *other, workspace);
    if (!placed) return fail(std::move(placed.error()));
    inputs.push_back(std::move(*placed));
  }
  return inputs;
}

Result<Timing> time_op(const Runtime& runtime, DeviceId device, const SparseMlaPrefill& op, const std::vector<DeviceTensors>& inputs,
                       const TimingOptions& options) {
  auto stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  auto start = runtime.create_event(device);
  if (!start) return fail(std::move(start.error()));
  const SparseMlaPrefillArguments& first = inputs.front().arguments;
  const auto shapes = op.launch_shapes(first.q.shape[0], first.indices.shape[1], first.kv.shape[0]);
  std::vector<Event> marks;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto mark = runtime.create_event(device);
    if (!mark) return fail(std::move(mark.error()));
    marks.push_back(std::move(*mark));
  }
  Timing timing;
  timing.launch_ms.resize(marks.size());
  HopelessRuns every_run(options.give_up_ms);
  for (int run = 0; run < options.warm_ups + options.repetitions && !marks.empty(); ++run) {
    const DeviceTensors& tensors = inputs[static_cast<std::size_t>(run) % inputs.size()];
    if (options.clock != nullptr && run == options.warm_ups) options.clock->sample();
    Result<> done = start->record(stream->handle());
    if (done) done = op.run_timed(tensors.arguments, stream->handle(), marks);
    if (done) done = stream->synchronize();
    if (!done) return fail(std::move(done.error()));
    if (options.clock != nullptr && run >= options.warm_ups) options.clock->sample();
    const auto total = marks.back().milliseconds_since(*start);
    if (!total) return fail(Error(total.error()));
    if (every_run.add(*total)) {
      timing.total_ms = every_run.times();
      timing.given_up = true;
      return timing;
    }
    if (run < options.warm_ups) continue;
    timing.total_ms.push_back(*total);
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const auto ms = marks[i].milliseconds_since(i == 0 ? *start : marks[i - 1]);
      if (!ms) return fail(Error(ms.error()));
      timing.launch_ms[i].push_back(*ms);
    }
  }
  return timing;
}

Result<HostOutput> run_once(const Runtime& runtime, DeviceId device, const SparseMlaPrefill& op, DeviceTensors& tensors,
                            const SparseMlaInput& input) {
  auto stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  Result<> done = clear_outputs(tensors);
  if (done) done = op.run(tensors.arguments, stream->handle());
  if (done) done = stream->synchronize();
  if (!done) return fail(std::move(done.error()));
  return fetch(tensors, input);
}

}  // namespace kernwright::tool
