#include "kernwright/sparse_mla_prefill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/beside.hpp"
#include "ops/sparse_mla_arguments.hpp"
#include "ops/sparse_mla_options.hpp"
#include "ops/sparse_mla_recording.hpp"
#include "ops/sparse_mla_workspace.hpp"
#include "ops/stepping_kernel.hpp"
#include "prepare/boundary.hpp"
#include "prepare/in_background.hpp"
#include "sparse_mla/prefill_params.cuh"
#include "sparse_mla/union_build_params.cuh"

namespace kernwright {
namespace {

using kw::sparse_mla::PrefillParams;
using kw::sparse_mla::UnionBuildParams;

constexpr std::int64_t kLargestGrid = 0x7fff'ffff;  // blocks in x, CUDA C++ programming guide

/// Up to here union_build is the faster one: it reads the indices once for each 32,768 positions. docs/kernels.md has the times.
constexpr std::int64_t kNarrowKvRows = 32'768;

/// Per token: what the work counter of persistent blocks takes of the workspace, and from how many pieces of work a block on it is worth
/// having: setting it to 0 is a launch's time, blocks that end together save about half a piece.
constexpr Bytes kWorkCounter{256};
constexpr std::int64_t kPiecesABlock = 8;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <class T>
T* advance(T* pointer, std::int64_t elements) {
  return pointer == nullptr ? nullptr : pointer + elements;
}
/// bf16 elements behind an untyped pointer.
void* advance_bf16(void* pointer, std::int64_t elements) {
  return static_cast<std::uint16_t*>(pointer) + elements;
}

}  // namespace

struct SparseMlaPrefill::State {
  Runtime runtime;
  SparseMlaPrefillOptions options;
  UnionChoice choice;
  int multiprocessors = 1;
  std::unique_ptr<SteppingKernel> union_build;       ///< Null where union is off.
  std::unique_ptr<SteppingKernel> wide_union_build;  ///< Where there are more kv rows than kNarrowKvRows; null with it.
  std::unique_ptr<SteppingKernel> prefill;

  [[nodiscard]] SteppingKernel& union_build_for(std::int64_t kv_rows) const noexcept {
    return kv_rows > kNarrowKvRows ? *wide_union_build : *union_build;
  }
  static Result<SparseMlaPrefill> make(const Runtime& runtime, const SparseMlaPrefillOptions& options);

  [[nodiscard]] int tokens_per_group() const noexcept { return std::max(1, choice.group_size); }
  [[nodiscard]] std::int64_t head_tiles(const Plan& plan) const noexcept {
    return ceil_div(options.heads, std::max(1, plan.rows_per_block / tokens_per_group()));
  }
  /// Of the attention kernel: a block a (group, head tile), or as many as stay resident where the plan is persistent.
  [[nodiscard]] Grid prefill_grid(const Plan& plan, std::int64_t groups) const noexcept {
    std::int64_t blocks = groups * head_tiles(plan);
    if (plan.blocks_per_sm > 0) blocks = std::min<std::int64_t>(blocks, std::int64_t{plan.blocks_per_sm} * multiprocessors);
    return Grid{static_cast<std::uint32_t>(blocks), 1, 1};
  }
  /// Per token: whether blocks should take so many tokens one by one. Their lists differ in how long they take, and multiprocessors do.
  [[nodiscard]] bool worth_a_counter(std::int64_t tokens) const noexcept {
    const Plan& plan = prefill->plan();
    return !union_build && plan.blocks_per_sm > 0 &&
           tokens * head_tiles(plan) >= kPiecesABlock * plan.blocks_per_sm * std::int64_t{multiprocessors};
  }
  /// Groups of one launch pair: bounded by the grid and, with union, by the workspace.
  [[nodiscard]] std::int64_t chunk_groups(const CallShape& shape, Bytes workspace) const noexcept {
    const std::int64_t groups = ceil_div(shape.tokens, tokens_per_group());
    const std::int64_t grid_bound = kLargestGrid / options.heads;  // holds for every tile that a launch may step down to
    std::int64_t chunk = std::min(groups, grid_bound);
    if (union_build) chunk = groups_that_fit(workspace, chunk, choice.group_size, shape.topk, shape.kv_rows);
    return chunk;
  }
  /// Kept off the path of calls that are not recorded: one pointer is looked at there.
  void record(const SparseMlaPrefillArguments& arguments, StreamHandle stream) const;
  [[nodiscard]] Result<> launch_chunk(const SparseMlaPrefillArguments& arguments, const CallShape& shape, std::int64_t first_group,
                                      std::int64_t groups, StreamHandle stream, std::span<Event>& marks) const;
};

Result<SparseMlaPrefill> SparseMlaPrefill::create(const Runtime& runtime, const SparseMlaPrefillOptions& options) {
  return without_exceptions([&] { return State::make(runtime, options); });
}

std::shared_future<Result<SparseMlaPrefill>> SparseMlaPrefill::create_async(const Runtime& runtime,
                                                                            const SparseMlaPrefillOptions& options) {
  return in_background<SparseMlaPrefill>(runtime.state(), [options](const Runtime& handle) { return create(handle, options); });
}

Result<SparseMlaPrefill> SparseMlaPrefill::State::make(const Runtime& runtime, const SparseMlaPrefillOptions& options) {
  const std::string step = "making the op sparse MLA prefill";
  if (auto checked = check_options(options); !checked) return fail(std::move(checked.error()).within(step));
  auto device = runtime.device(options.device);
  if (!device) return fail(std::move(device.error()).within(step));
  auto choice = choose_union(runtime.state(), options, *device);
  if (!choice) return fail(std::move(choice.error()).within(step));

  const auto prepare = [&](const char* name, Specialisation specialisation, std::size_t params_bytes, std::optional<Tile> tile) {
    return SteppingKernel::create(runtime, {name, std::move(specialisation), options.device, std::move(tile), params_bytes, std::nullopt});
  };
  auto state = std::make_shared<State>(State{runtime, options, *choice, std::max(1, device->multiprocessors), nullptr, nullptr, nullptr});
  if (state->choice.group_size > 0) {
    // Side by side: on a cold store each compile takes hundreds of milliseconds.
    const auto prepare_build = [&](const char* name) {
      return prepare(name, Specialisation{}.set("group_size", state->choice.group_size), sizeof(UnionBuildParams), std::nullopt);
    };
    auto building = beside([&] { return prepare_build(kUnionBuildTemplate); });
    auto building_wide = beside([&] { return prepare_build(kWideUnionBuildTemplate); });
    auto prefill =
        prepare(kPrefillTemplate, prefill_specialisation(options, state->choice.group_size), sizeof(PrefillParams), options.tile);
    auto build = building.get();
    auto wide = building_wide.get();
    if (!build) prefill = tl::unexpected<Error>(build.error());
    if (!wide) prefill = tl::unexpected<Error>(wide.error());
    if (prefill) {
      state->union_build = std::move(*build);
      state->wide_union_build = std::move(*wide);
      state->prefill = std::move(*prefill);
      return SparseMlaPrefill(std::move(state));
    }
    if (prefill.error().code != ErrorCode::does_not_fit || options.tile) return fail(std::move(prefill.error()).within(step));
    state->choice = {0, fmt::format("no tile for a union of {} fits: {}", choice->group_size, prefill.error().message)};
    runtime.state().warn_once("sparse MLA prefill runs per token: " + state->choice.reason);
  }
  auto prefill = prepare(kPrefillTemplate, prefill_specialisation(options, 1), sizeof(PrefillParams), options.tile);
  if (!prefill) return fail(std::move(prefill.error()).within(step));
  state->prefill = std::move(*prefill);
  return SparseMlaPrefill(std::move(state));
}

Bytes SparseMlaPrefill::workspace_bytes(std::int64_t tokens, std::int64_t kv_rows) const noexcept {
  if (tokens <= 0) return {};
  if (!state_->union_build) return state_->worth_a_counter(tokens) ? kWorkCounter : Bytes{};
  const int group = state_->choice.group_size;
  const std::int64_t rows = std::max<std::int64_t>(kv_rows, 0);
  return union_workspace(state_->options.workspace_limit, ceil_div(tokens, group), group, state_->options.max_topk, rows);
}

Result<> SparseMlaPrefill::State::launch_chunk(const SparseMlaPrefillArguments& a, const CallShape& shape, std::int64_t first_group,
                                               std::int64_t groups, StreamHandle stream, std::span<Event>& marks) const {
  const auto mark = [&]() -> Result<> {
    if (marks.empty()) return {};
    Event& event = marks.front();
    marks = marks.subspan(1);
    return event.record(stream);
  };
  const std::int64_t first_token = first_group * tokens_per_group();
  PrefillParams params{};
  params.tokens = std::min(groups * tokens_per_group(), shape.tokens - first_token);
  params.kv_rows = shape.kv_rows;
  params.topk = static_cast<int>(shape.topk);
  params.sm_scale = a.sm_scale;
  params.q_stride_token = a.q.stride[0];
  params.q_stride_head = a.q.stride[1];
  params.kv_stride_row = a.kv.stride[0];
  params.out_stride_token = a.out.stride[0];
  params.out_stride_head = a.out.stride[1];
  params.q = advance_bf16(a.q.data, first_token * params.q_stride_token);
  params.kv = a.kv.data;
  params.out = advance_bf16(a.out.data, first_token * params.out_stride_token);
  params.attn_sink = static_cast<const float*>(a.attn_sink.data);
  params.max_logits = advance(static_cast<float*>(a.max_logits.data), first_token * options.heads);
  params.lse = advance(static_cast<float*>(a.lse.data), first_token * options.heads);
  const int* indices = static_cast<const int*>(a.indices.data) + first_token * shape.topk;
  const int* topk_length = advance(static_cast<const int*>(a.topk_length.data), first_token);

  if (union_build) {
    const UnionLayout layout = union_layout(groups, choice.group_size, shape.topk, shape.kv_rows);
    auto* base = static_cast<std::byte*>(a.workspace);
    UnionBuildParams build{};
    build.indices = indices;
    build.topk_length = topk_length;
    build.next_work = reinterpret_cast<unsigned*>(base);
    build.union_counts = reinterpret_cast<int*>(base + layout.counts_offset);
    build.union_rows = reinterpret_cast<int*>(base + layout.rows_offset);
    build.union_masks = base + layout.masks_offset;
    build.tokens = params.tokens;
    build.kv_rows = shape.kv_rows;
    build.capacity = layout.capacity;
    build.topk = params.topk;
    if (auto launched = union_build_for(shape.kv_rows).launch(Grid{static_cast<std::uint32_t>(groups), 1, 1}, build, stream); !launched)
      return launched;
    if (auto marked = mark(); !marked) return marked;
    params.union_rows = build.union_rows;
    params.union_masks = build.union_masks;
    params.union_counts = build.union_counts;
    params.next_work = build.next_work;
    params.union_capacity = layout.capacity;
  } else {
    params.indices = indices;
    params.topk_length = topk_length;
    if (a.workspace != nullptr && a.workspace_size >= kWorkCounter && worth_a_counter(params.tokens)) {
      params.next_work = static_cast<unsigned*>(a.workspace);
      Backend& backend = *runtime.state().backend(options.device.backend);
      if (auto zeroed = backend.enqueue_zeros(options.device, params.next_work, kWorkCounter, stream); !zeroed) return zeroed;
    }
  }
  const auto grid = [&](const Plan& plan) { return prefill_grid(plan, groups); };
  if (auto launched = prefill->launch(grid, params, stream); !launched) return launched;
  return mark();
}

void SparseMlaPrefill::State::record(const SparseMlaPrefillArguments& arguments, StreamHandle stream) const {
  Recorder& recorder = *runtime.state().recorder;
  if (!recorder.wants_more()) return;
  (void)without_exceptions([&]() -> Result<> {
    recorder.record(runtime.state().backend(options.device.backend),
                    recorded_call(arguments, options, choice.group_size, prefill->kernel().report(), stream));
    return {};
  });
}

Result<> SparseMlaPrefill::run(const SparseMlaPrefillArguments& arguments, StreamHandle stream) const {
  return run_timed(arguments, stream, {});
}

Result<> SparseMlaPrefill::run_timed(const SparseMlaPrefillArguments& arguments, StreamHandle stream, std::span<Event> after_launch) const {
  const auto shape = check_arguments(arguments, state_->options);
  if (!shape) return tl::unexpected<Error>(shape.error());
  if (shape->tokens == 0) return {};
  const std::int64_t groups = ceil_div(shape->tokens, state_->tokens_per_group());
  // Per token a workspace may be left out: every block then has a fixed share of the tokens.
  const Bytes needed = state_->union_build ? workspace_bytes(shape->tokens, shape->kv_rows) : Bytes{};
  if (arguments.workspace_size < needed || (needed.count > 0 && arguments.workspace == nullptr)) {
    return fail(ErrorCode::invalid_argument, fmt::format("argument workspace: {} bytes{}; legal is at least workspace_bytes({}, {}) = {}",
                                                         arguments.workspace_size.count, arguments.workspace == nullptr ? " at null" : "",
                                                         shape->tokens, shape->kv_rows, needed.count));
  }
  const std::int64_t chunk = state_->chunk_groups(*shape, needed);  // not what a larger workspace would hold: launch_shapes() says so
  for (std::int64_t first = 0; first < groups; first += chunk) {
    if (auto launched = state_->launch_chunk(arguments, *shape, first, std::min(chunk, groups - first), stream, after_launch); !launched) {
      return launched;
    }
  }
  if (state_->runtime.state().recorder) state_->record(arguments, stream);
  return {};
}

std::optional<int> SparseMlaPrefill::union_asked() const noexcept {
  return state_->options.group_size;
}
int SparseMlaPrefill::union_used() const noexcept {
  return state_->choice.group_size;
}
const std::string& SparseMlaPrefill::union_reason() const noexcept {
  return state_->choice.reason;
}

std::vector<Kernel> SparseMlaPrefill::kernels() const {
  std::vector<Kernel> all;
  if (state_->union_build) {
    all.push_back(state_->union_build->kernel());
    all.push_back(state_->wide_union_build->kernel());
  }
  all.push_back(state_->prefill->kernel());
  return all;
}

std::vector<PrepareReport> SparseMlaPrefill::reports() const {
  std::vector<PrepareReport> all;
  for (const Kernel& kernel : kernels()) all.push_back(kernel.report());
  return all;
}

std::vector<SparseMlaPrefill::LaunchShape> SparseMlaPrefill::launch_shapes(std::int64_t tokens, std::int64_t topk,
                                                                           std::int64_t kv_rows) const {
  std::vector<LaunchShape> shapes;
  if (tokens <= 0) return shapes;
  const std::int64_t groups = ceil_div(tokens, state_->tokens_per_group());
  const std::int64_t chunk = std::max<std::int64_t>(1, state_->chunk_groups({tokens, kv_rows, topk}, workspace_bytes(tokens, kv_rows)));
  const auto add = [&](const SteppingKernel& kernel, const Grid& grid) {
    const Plan& plan = kernel.plan();
    shapes.push_back({kernel.kernel().report().template_name, grid, plan.threads, plan.dynamic_shared});
  };
  for (std::int64_t first = 0; first < groups; first += chunk) {
    const std::int64_t count = std::min(chunk, groups - first);
    if (state_->union_build) add(state_->union_build_for(kv_rows), Grid{static_cast<std::uint32_t>(count), 1, 1});
    add(*state_->prefill, state_->prefill_grid(state_->prefill->plan(), count));
  }
  return shapes;
}

}  // namespace kernwright
