#include "kernwright/paged_mla_decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ops/beside.hpp"
#include "ops/paged_mla_arguments.hpp"
#include "ops/paged_mla_options.hpp"
#include "ops/sparse_mla_options.hpp"
#include "ops/stepping_kernel.hpp"
#include "ops/tensor_check.hpp"
#include "paged_mla/combine_params.cuh"
#include "paged_mla/decode_params.cuh"
#include "prepare/boundary.hpp"
#include "prepare/in_background.hpp"

namespace kernwright {
namespace {

using kw::paged_mla::CombineParams;
using kw::paged_mla::DecodeParams;

/// A split costs a write and a read of 2 KiB a row; 32 keys are 36 KiB to read.
constexpr int kMinimumKeys = 32;
/// Of a merge that is cut into slices: what stands on a device of 128 multiprocessors beside the attention.
constexpr std::int64_t kMergeThreads = 256 * 128;
constexpr std::int64_t kPartialsOfAShare = 2;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// How the attention kernel was launched: what the merge behind it has to know.
struct Partition {
  int shares = 1;
  int row_tiles = 1;
  int slot_rows = 0;
  int tile_keys = 0;
  [[nodiscard]] Grid grid() const noexcept { return {static_cast<std::uint32_t>(shares * row_tiles), 1, 1}; }
};

}  // namespace

struct PagedMlaDecode::State {
  PagedMlaDecodeOptions options;
  int multiprocessors = 1;
  std::unique_ptr<SteppingKernel> decode;
  std::unique_ptr<SteppingKernel> combine;  ///< Null where there is one share.

  static Result<PagedMlaDecode> make(const Runtime& runtime, const PagedMlaDecodeOptions& options);

  [[nodiscard]] std::int64_t rows() const noexcept { return std::int64_t{options.query_tokens} * options.heads; }
  [[nodiscard]] Partition partition(const Kernel& kernel) const noexcept {
    const Plan& plan = kernel.plan();
    Partition made;
    made.tile_keys = kernel.report().tile_fitted.block_n;
    made.row_tiles = static_cast<int>(ceil_div(rows(), plan.rows_per_block));
    made.slot_rows = made.row_tiles * plan.rows_per_block;
    made.shares = options.shares.value_or(std::max(1, plan.blocks_per_sm * multiprocessors / made.row_tiles));
    return made;
  }
  /// Rows of partial results for any tile that a launch may step down to: a grid has at most largest_tile_rows rows a multiprocessor, or
  /// the rows of one request, rounded up to whole tiles; or so many shares of them.
  [[nodiscard]] std::int64_t partial_rows() const noexcept {
    if (!combine) return 0;
    constexpr std::int64_t kTile = kw::paged_mla::largest_tile_rows;
    const std::int64_t request = ceil_div(rows(), kTile) * kTile;
    const std::int64_t grid = options.shares ? *options.shares * request : std::max(kTile * multiprocessors, request);
    return kPartialsOfAShare * grid;
  }
  /// Log2 of the blocks a row of the merge: more where the batch has few rows. It depends on nothing that a replay could find changed.
  [[nodiscard]] int merge_slice_bits(std::int64_t batch) const noexcept {
    const std::int64_t wanted = kMergeThreads / (batch * rows() * combine->plan().threads);
    const auto slices = static_cast<std::uint64_t>(std::clamp<std::int64_t>(wanted, 1, kw::paged_mla::largest_slices));
    return static_cast<int>(std::bit_width(slices)) - 1;
  }
  [[nodiscard]] Grid merge_grid(std::int64_t batch, int slice_bits) const noexcept {
    return {static_cast<std::uint32_t>(batch * rows()) << slice_bits, 1, 1};
  }
  [[nodiscard]] std::uint64_t partial_output_bytes() const noexcept {
    return static_cast<std::uint64_t>(partial_rows()) * kValueColumns * sizeof(float);
  }
};

Result<PagedMlaDecode> PagedMlaDecode::create(const Runtime& runtime, const PagedMlaDecodeOptions& options) {
  return without_exceptions([&] { return State::make(runtime, options); });
}

std::shared_future<Result<PagedMlaDecode>> PagedMlaDecode::create_async(const Runtime& runtime, const PagedMlaDecodeOptions& options) {
  return in_background<PagedMlaDecode>(runtime.state(), [options](const Runtime& handle) { return create(handle, options); });
}

Result<PagedMlaDecode> PagedMlaDecode::State::make(const Runtime& runtime, const PagedMlaDecodeOptions& options) {
  const std::string step = "making the op paged MLA decode";
  if (auto checked = check_options(options); !checked) return fail(std::move(checked.error()).within(step));
  auto device = runtime.device(options.device);
  if (!device) return fail(std::move(device.error()).within(step));
  auto state = std::make_shared<State>();
  state->options = options;
  state->multiprocessors = std::max(1, device->multiprocessors);
  const auto prepare = [&](const char* name, Specialisation specialisation, std::size_t params_bytes, std::optional<Tile> tile) {
    return SteppingKernel::create(runtime, {name, std::move(specialisation), options.device, std::move(tile), params_bytes, std::nullopt});
  };
  auto combining = beside([&]() -> Result<std::unique_ptr<SteppingKernel>> {
    if (options.shares == 1) return std::unique_ptr<SteppingKernel>();
    return prepare(kCombineTemplate, Specialisation{}.set("dtype", options.dtype), sizeof(CombineParams), std::nullopt);
  });
  auto decode = prepare(kDecodeTemplate, decode_specialisation(options), sizeof(DecodeParams), options.tile);
  auto combine = combining.get();
  if (!decode) return fail(std::move(decode.error()).within(step));
  if (!combine) return fail(std::move(combine.error()).within(step));
  state->decode = std::move(*decode);
  state->combine = std::move(*combine);
  return PagedMlaDecode(std::move(state));
}

Bytes PagedMlaDecode::workspace_bytes() const noexcept {
  return Bytes{state_->partial_output_bytes() + static_cast<std::uint64_t>(state_->partial_rows()) * sizeof(float)};
}

Result<> PagedMlaDecode::run(const PagedMlaDecodeArguments& a, StreamHandle stream) const {
  const auto shape = check_arguments(a, state_->options);
  if (!shape) return tl::unexpected<Error>(shape.error());
  if (shape->batch == 0) return {};
  const Bytes needed = workspace_bytes();
  if (a.workspace_size < needed || (needed.count > 0 && a.workspace == nullptr)) {
    return fail(ErrorCode::invalid_argument, fmt::format("argument workspace: {} bytes{}; legal is at least workspace_bytes() = {}",
                                                         a.workspace_size.count, a.workspace == nullptr ? " at null" : "", needed.count));
  }
  DecodeParams params{};
  params.sequences.lengths = a.seq_lens.data;
  params.sequences.batch = shape->batch;
  params.sequences.largest_length = static_cast<int>(shape->largest_length);
  params.sequences.wide = a.seq_lens.dtype == DType::i64 ? 1 : 0;
  params.sequences.minimum_keys = kMinimumKeys;
  params.q = a.q.data;
  params.kv = a.kv.data;
  params.block_table = static_cast<const int*>(a.block_table.data);
  params.out = a.out.data;
  params.lse = static_cast<float*>(a.lse.data);
  params.partials.out = static_cast<float*>(a.workspace);
  params.partials.lse = reinterpret_cast<float*>(static_cast<std::byte*>(a.workspace) + state_->partial_output_bytes());
  params.q_stride_request = a.q.stride[0];
  params.q_stride_token = a.q.stride[1];
  params.q_stride_head = a.q.stride[2];
  params.kv_stride_row = a.kv.stride[0];
  params.table_stride = a.block_table.stride[0];
  params.out_stride_request = a.out.stride[0];
  params.out_stride_token = a.out.stride[1];
  params.out_stride_head = a.out.stride[2];
  params.kv_rows = a.kv.shape[0];
  params.sm_scale = a.sm_scale;

  Partition partition;
  const auto grid = [&](const Kernel& kernel) {
    partition = state_->partition(kernel);
    return partition.grid();
  };
  if (auto launched = state_->decode->launch(grid, params, stream); !launched || partition.shares == 1) return launched;

  CombineParams merge{};
  merge.sequences = params.sequences;
  merge.out = params.out;
  merge.lse = params.lse;
  merge.partials = params.partials;
  merge.out_stride_request = params.out_stride_request;
  merge.out_stride_token = params.out_stride_token;
  merge.out_stride_head = params.out_stride_head;
  merge.query_tokens = state_->options.query_tokens;
  merge.heads = state_->options.heads;
  merge.slot_rows = partition.slot_rows;
  merge.tile_keys = partition.tile_keys;
  merge.shares = partition.shares;
  merge.slice_bits = state_->merge_slice_bits(shape->batch);
  return state_->combine->launch(state_->merge_grid(shape->batch, merge.slice_bits), merge, stream);
}

const PagedMlaDecodeOptions& PagedMlaDecode::options() const noexcept {
  return state_->options;
}

std::vector<Kernel> PagedMlaDecode::kernels() const {
  std::vector<Kernel> all{state_->decode->kernel()};
  if (state_->combine) all.push_back(state_->combine->kernel());
  return all;
}

std::vector<PrepareReport> PagedMlaDecode::reports() const {
  std::vector<PrepareReport> all;
  for (const Kernel& kernel : kernels()) all.push_back(kernel.report());
  return all;
}

std::vector<PagedMlaDecode::LaunchShape> PagedMlaDecode::launch_shapes(std::int64_t batch) const {
  std::vector<LaunchShape> shapes;
  if (batch <= 0) return shapes;
  const auto add = [&](const Kernel& kernel, const Grid& grid) {
    shapes.push_back({kernel.report().template_name, grid, kernel.plan().threads, kernel.plan().dynamic_shared});
  };
  const Partition partition = state_->partition(state_->decode->kernel());
  add(state_->decode->kernel(), partition.grid());
  if (partition.shares > 1) {
    add(state_->combine->kernel(), state_->merge_grid(batch, state_->merge_slice_bits(batch)));
  }
  return shapes;
}

}  // namespace kernwright
