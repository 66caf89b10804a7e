#include "batch_timing.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/backend.hpp"
#include "prepare/runtime_state.hpp"
#include "support/stream_graph.hpp"
#include "timing_options.hpp"

namespace kernwright::tool {

Result<BatchTiming> time_batches(const Runtime& runtime, DeviceId device, const EnqueueOperation& enqueue,
                                 const BatchTimingOptions& options) {
  auto stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  auto start = runtime.create_event(device), stop = runtime.create_event(device);
  if (!start) return fail(std::move(start.error()));
  if (!stop) return fail(std::move(stop.error()));
  std::int64_t next = 0;
  const auto enqueue_batch = [&](int operations) {
    Result<> done;
    for (int i = 0; i < operations && done; ++i) done = enqueue(next++, stream->handle());
    return done;
  };
  const auto timed = [&](int operations, const std::function<Result<>()>& launch) -> Result<double> {
    Result<> done = start->record(stream->handle());
    if (done) done = launch();
    if (done) done = stop->record(stream->handle());
    if (done) done = stream->synchronize();
    if (!done) return fail(std::move(done.error()));
    const auto milliseconds = stop->milliseconds_since(*start);
    if (!milliseconds) return fail(Error(milliseconds.error()));
    return *milliseconds * 1e3 / operations;
  };
  BatchTiming timing;
  timing.operations = 1;
  HopelessRuns every_batch(options.give_up_us);
  const auto given_up = [&] {
    timing.each_us = every_batch.times();
    timing.given_up = true;
    return timing;
  };
  for (int run = 0; run < options.warm_ups; ++run) {
    const auto each_us = timed(timing.operations, [&] { return enqueue_batch(timing.operations); });
    if (!each_us) return fail(Error(each_us.error()));
    if (every_batch.add(*each_us)) return given_up();
    const double wanted = std::ceil(options.batch_us / std::max(*each_us, 1e-3));
    timing.operations = static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(options.most_operations)));
  }
  std::optional<support::StreamGraph> graph;
  if (options.graph) {
    auto captured = support::StreamGraph::capture(stream->handle(), [&] { return enqueue_batch(timing.operations); });
    if (!captured) return fail(std::move(captured.error()).within("capturing a batch"));
    graph.emplace(std::move(*captured));
  }
  for (int run = graph ? -options.warm_ups : 0; run < options.repetitions; ++run) {
    if (options.clock != nullptr && run == 0) options.clock->sample();
    const auto each_us =
        timed(timing.operations, [&] { return graph ? graph->replay(stream->handle()) : enqueue_batch(timing.operations); });
    if (!each_us) return fail(Error(each_us.error()));
    if (every_batch.add(*each_us)) return given_up();
    if (run < 0) continue;
    if (options.clock != nullptr) options.clock->sample();
    timing.each_us.push_back(*each_us);
  }
  return timing;
}

Result<std::vector<double>> measured_copy_tbps(const Runtime& runtime, DeviceId device, Bytes size, const BatchTimingOptions& options) {
  auto from = runtime.allocate(device, size), to = runtime.allocate(device, size);
  for (auto* buffer : {&from, &to}) {
    if (!*buffer) return fail(std::move(buffer->error()).within("measuring the copy bandwidth"));
    if (auto filled = (*buffer)->fill(std::byte{0x5a}); !filled) return fail(std::move(filled.error()));
  }
  const auto backend = runtime.state().backend(device.backend);
  const auto timing = time_batches(
      runtime, device,
      [&](std::int64_t, StreamHandle stream) { return backend->copy_on_device(device, to->data(), from->data(), size, stream); }, options);
  if (!timing) return fail(Error(timing.error()));
  std::vector<double> tbps;
  for (const double us : timing->each_us) tbps.push_back(2 * static_cast<double>(size.count) / (us * 1e6));
  return tbps;
}

}  // namespace kernwright::tool
