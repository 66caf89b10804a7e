#include "block_table_bench.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device_upload.hpp"
#include "kernwright/paged_kv.hpp"
#include "support/paged_kv_reference.hpp"
#include "support/random.hpp"

namespace kernwright::tool {
namespace {

constexpr double kSectorBytes = 32;  // of global memory, the least that a read fetches
constexpr double kRotatedL2s = 4;
constexpr std::int64_t kMostSets = 32;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// The tables and ids in host memory. Only the tokens that begin a page are filled in: nothing else is read.
struct HostTables {
  support::PagedIds ids;
  std::vector<std::int32_t> req_to_token;  ///< [sets · batch, tokens]
};

HostTables make_tables(const BlockTableBenchShape& shape, std::int64_t slots, std::int64_t width) {
  HostTables tables;
  const bool unified = shape.pool != PoolKind::static_pool;
  const std::int64_t pages = shape.point.batch * width + 1;
  tables.ids.page_size = shape.page_size;
  tables.ids.multiplier = unified ? shape.layers : 1;
  support::SplitMix64 random(support::stream_seed(shape.seed, 5));
  if (unified) {
    tables.ids.v2p.resize(at(pages + 1));
    std::iota(tables.ids.v2p.begin(), tables.ids.v2p.end(), 0);
    for (std::int64_t i = pages - 1; i > 1; --i) {
      std::swap(tables.ids.v2p[at(i)], tables.ids.v2p[at(1 + random.below(static_cast<std::uint32_t>(i)))]);
    }
    tables.ids.v2p.back() = -1;
  }
  tables.req_to_token.resize(at(slots * shape.point.tokens));
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    for (std::int64_t page = 0; page < width; ++page) {
      const std::int64_t id = shape.ids == PageIds::in_order ? 1 + slot % shape.point.batch * width + page
                                                             : 1 + std::int64_t{random.below(static_cast<std::uint32_t>(pages - 1))};
      tables.req_to_token[at(slot * shape.point.tokens + page * shape.page_size)] = static_cast<std::int32_t>(id * shape.page_size);
    }
  }
  return tables;
}

}  // namespace

std::string_view to_string(PageIds ids) noexcept {
  return ids == PageIds::in_order ? "in order" : "anywhere";
}

Result<BlockTableBenchPoint> measure_block_table(const Runtime& runtime, const DeviceInfo& device, const BlockTableBenchShape& shape,
                                                 const BatchTimingOptions& timing) {
  BlockTableBenchPoint measured;
  measured.shape = shape.point;
  measured.pool = shape.pool;
  measured.ids = shape.ids;
  const std::int64_t batch = shape.point.batch, width = (shape.point.tokens + shape.page_size - 1) / shape.page_size;
  const double touched = static_cast<double>(batch * width) * kSectorBytes;
  const bool on_gpu = device.id.backend == BackendKind::cuda;
  const double rotated = on_gpu ? kRotatedL2s * static_cast<double>(device.l2.count) : 0;
  measured.sets = std::clamp(static_cast<std::int64_t>(std::ceil(rotated / touched)), std::int64_t{2}, kMostSets);
  const std::int64_t slots = measured.sets * batch;
  const HostTables tables = make_tables(shape, slots, width);

  PagedKvOptions options;
  options.device = device.id;
  options.page_size = shape.page_size;
  options.multiplier = static_cast<int>(tables.ids.multiplier);
  options.has_table = !tables.ids.v2p.empty();
  options.pages = batch * width + 1;
  options.request_dtype = DType::i32;
  options.index_dtype = DType::i64;
  auto kernels = PagedKv::create(runtime, options);
  if (!kernels) return fail(std::move(kernels.error()));
  std::vector<std::int32_t> requests(at(slots));
  std::iota(requests.begin(), requests.end(), 0);
  const std::vector<std::int32_t> lengths(at(batch), static_cast<std::int32_t>(shape.point.tokens));
  auto device_tokens = to_device(runtime, device.id, tables.req_to_token), device_requests = to_device(runtime, device.id, requests);
  auto device_lengths = to_device(runtime, device.id, lengths), v2p = to_device(runtime, device.id, tables.ids.v2p);
  auto out = output_buffer(runtime, device.id, Bytes{static_cast<std::uint64_t>(batch * width) * sizeof(std::int32_t)});
  for (auto* buffer : {&device_tokens, &device_requests, &device_lengths, &v2p, &out}) {
    if (!*buffer) return fail(std::move(buffer->error()));
  }
  const TensorView cells = TensorView::contiguous(out->data(), DType::i32, {batch, width});
  const auto enqueue = [&](std::int64_t i, StreamHandle stream) {
    PagedKvBatch arguments;
    arguments.req_to_token = TensorView::contiguous(device_tokens->data(), DType::i32, {slots, shape.point.tokens});
    auto* const of_set = static_cast<std::int32_t*>(device_requests->data()) + i % measured.sets * batch;
    arguments.requests = TensorView::contiguous(of_set, DType::i32, {batch});
    arguments.lengths = TensorView::contiguous(device_lengths->data(), DType::i32, {batch});
    if (options.has_table) {
      arguments.v2p = TensorView::contiguous(v2p->data(), DType::i64, {static_cast<std::int64_t>(tables.ids.v2p.size())});
    }
    return kernels->block_table(arguments, cells, stream);
  };

  auto stream = runtime.create_stream(device.id);
  if (!stream) return fail(std::move(stream.error()));
  for (std::int64_t set = 0; set < measured.sets; ++set) {
    Result<> done = out->fill(std::byte{0xff});
    if (done) done = enqueue(set, stream->handle());
    if (done) done = stream->synchronize();
    if (!done) return fail(std::move(done.error()));
    const auto got = to_host<std::int32_t>(*out, batch * width);
    if (!got) return fail(Error(got.error()));
    for (std::int64_t cell = 0; cell < batch * width; ++cell) {
      const std::int64_t token =
          tables.req_to_token[at((set * batch + cell / width) * shape.point.tokens + cell % width * shape.page_size)];
      measured.wrong_cells += (*got)[at(cell)] != tables.ids.page(token) ? 1 : 0;
    }
  }
  if (measured.wrong_cells > 0) return measured;  // a wrong kernel's time is nobody's
  auto timed = time_batches(runtime, device.id, enqueue, timing);
  if (!timed) return fail(std::move(timed.error()));
  measured.timing = std::move(*timed);
  return measured;
}

}  // namespace kernwright::tool
