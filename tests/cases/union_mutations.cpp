// The union and the attention launched apart, so that a fault can be planted between them.
#include <algorithm>
#include <cmath>

#include "cases/sparse_mla_case.hpp"
#include "sparse_mla/prefill_params.cuh"
#include "sparse_mla/union_build_params.cuh"

namespace kernwright::cases {
namespace {

using kw::sparse_mla::PrefillParams;
using kw::sparse_mla::UnionBuildParams;

/// A union in host memory; masks widened to 32 bits.
struct HostUnion {
  std::vector<std::int32_t> counts, rows;
  std::vector<std::uint32_t> masks;
  std::int64_t capacity = 0;
};

/// Plants the fault in the first group. A doubled row stands twice with the same owners; the union's order and size otherwise stay legal.
void mutate(HostUnion& u, Mutation mutation) {
  const auto count = static_cast<std::size_t>(u.counts[0]);
  const std::size_t middle = count / 2;
  switch (mutation) {
    case Mutation::row_doubled:
      u.rows[middle + 1] = u.rows[middle];
      u.masks[middle] |= u.masks[middle + 1];  // keeps every owner's number of rows, so that only the weights are wrong
      u.masks[middle + 1] = u.masks[middle];
      break;
    case Mutation::row_dropped:
      std::copy(u.rows.begin() + static_cast<std::ptrdiff_t>(middle) + 1, u.rows.begin() + static_cast<std::ptrdiff_t>(count),
                u.rows.begin() + static_cast<std::ptrdiff_t>(middle));
      std::copy(u.masks.begin() + static_cast<std::ptrdiff_t>(middle) + 1, u.masks.begin() + static_cast<std::ptrdiff_t>(count),
                u.masks.begin() + static_cast<std::ptrdiff_t>(middle));
      --u.counts[0];
      break;
    case Mutation::mask_bit_flipped: u.masks[middle] ^= 1; break;
    case Mutation::union_end_skipped: u.counts.back() -= 3; break;
    case Mutation::tail_skipped:
    case Mutation::none: break;
  }
}

struct UnionBuffers {
  DeviceBuffer counts, rows, masks;
};

template <class T>
Result<> fetch(const DeviceBuffer& from, std::vector<T>& to) {
  return from.download(std::as_writable_bytes(std::span(to)));
}

Result<> apply(UnionBuffers& buffers, std::int64_t groups, std::int64_t capacity, int group_size, Mutation mutation) {
  HostUnion u;
  u.capacity = capacity;
  u.counts.resize(static_cast<std::size_t>(groups));
  u.rows.resize(static_cast<std::size_t>(groups * capacity));
  if (auto r = fetch(buffers.counts, u.counts); !r) return r;
  if (auto r = fetch(buffers.rows, u.rows); !r) return r;
  const bool wide = group_size > 8;
  std::vector<std::uint8_t> narrow_masks(wide ? 0 : u.rows.size());
  std::vector<std::uint16_t> wide_masks(wide ? u.rows.size() : 0);
  if (auto r = wide ? fetch(buffers.masks, wide_masks) : fetch(buffers.masks, narrow_masks); !r) return r;
  if (wide) {
    u.masks.assign(wide_masks.begin(), wide_masks.end());
  } else {
    u.masks.assign(narrow_masks.begin(), narrow_masks.end());
  }
  if (u.counts[0] < 4) return fail(ErrorCode::invalid_argument, "the case's first union is too small to plant a fault in");
  mutate(u, mutation);
  std::transform(u.masks.begin(), u.masks.begin() + static_cast<std::ptrdiff_t>(narrow_masks.size()), narrow_masks.begin(),
                 [](std::uint32_t m) { return static_cast<std::uint8_t>(m); });
  std::transform(u.masks.begin(), u.masks.begin() + static_cast<std::ptrdiff_t>(wide_masks.size()), wide_masks.begin(),
                 [](std::uint32_t m) { return static_cast<std::uint16_t>(m); });
  if (auto r = buffers.counts.upload(std::as_bytes(std::span(u.counts))); !r) return r;
  if (auto r = buffers.rows.upload(std::as_bytes(std::span(u.rows))); !r) return r;
  return buffers.masks.upload(wide ? std::as_bytes(std::span(wide_masks)) : std::as_bytes(std::span(narrow_masks)));
}

}  // namespace

std::string_view to_string(Mutation mutation) noexcept {
  switch (mutation) {
    case Mutation::none: return "none";
    case Mutation::row_doubled: return "row doubled";
    case Mutation::row_dropped: return "row dropped";
    case Mutation::mask_bit_flipped: return "mask bit flipped";
    case Mutation::tail_skipped: return "tail skipped";
    case Mutation::union_end_skipped: return "end of the last union skipped";
  }
  return "unknown";
}

Result<CaseOutcome> run_mutated_union(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, Mutation mutation) {
  auto op = SparseMlaPrefill::create(runtime, options_of(c, device));
  if (!op) return fail(std::move(op.error()));
  const std::vector<Kernel> kernels = op->kernels();
  if (kernels.size() < 2) return fail(ErrorCode::invalid_argument, "the case has no union");
  const auto inputs = make_inputs(c);
  auto problem = DeviceProblem::create(runtime, device, c, *inputs, {});
  if (!problem) return fail(std::move(problem.error()));

  const std::int64_t groups = (c.tokens + c.group_size - 1) / c.group_size;
  const std::int64_t capacity = std::min(c.group_size * c.topk, c.kv_rows);
  const auto allocate = [&](std::int64_t bytes) { return runtime.allocate(device, Bytes{static_cast<std::uint64_t>(bytes)}); };
  auto counts = allocate(groups * 4);
  auto next_work = allocate(4);
  auto rows = allocate(groups * capacity * 4);
  auto masks = allocate(groups * capacity * (c.group_size > 8 ? 2 : 1));
  auto stream = runtime.create_stream(device);
  if (!counts || !next_work || !rows || !masks || !stream) return fail(ErrorCode::out_of_memory, "no memory for the union");
  UnionBuffers buffers{std::move(*counts), std::move(*rows), std::move(*masks)};

  const SparseMlaPrefillArguments& a = problem->arguments;
  UnionBuildParams build{};
  build.indices = static_cast<const int*>(a.indices.data);
  build.topk_length = static_cast<const int*>(a.topk_length.data);
  build.union_rows = static_cast<int*>(buffers.rows.data());
  build.union_masks = buffers.masks.data();
  build.union_counts = static_cast<int*>(buffers.counts.data());
  build.next_work = static_cast<unsigned*>(next_work->data());
  build.tokens = c.tokens;
  build.kv_rows = c.kv_rows;
  build.capacity = capacity;
  build.topk = static_cast<int>(c.topk);
  if (auto r = kernels.front().launch(Grid{static_cast<std::uint32_t>(groups), 1, 1}, build, stream->handle()); !r)
    return fail(std::move(r.error()));
  if (auto r = stream->synchronize(); !r) return fail(std::move(r.error()));
  if (auto r = apply(buffers, groups, capacity, c.group_size, mutation); !r) return fail(std::move(r.error()));

  PrefillParams params{};
  params.q = a.q.data;
  params.kv = a.kv.data;
  params.attn_sink = static_cast<const float*>(a.attn_sink.data);
  params.out = a.out.data;
  params.max_logits = static_cast<float*>(a.max_logits.data);
  params.lse = static_cast<float*>(a.lse.data);
  params.union_rows = build.union_rows;
  params.union_masks = build.union_masks;
  params.union_counts = build.union_counts;
  params.next_work = build.next_work;
  params.q_stride_token = a.q.stride[0];
  params.q_stride_head = a.q.stride[1];
  params.kv_stride_row = a.kv.stride[0];
  params.out_stride_token = a.out.stride[0];
  params.out_stride_head = a.out.stride[1];
  params.tokens = c.tokens;
  params.kv_rows = c.kv_rows;
  params.union_capacity = capacity;
  params.topk = build.topk;
  params.sm_scale = a.sm_scale;
  const std::int64_t heads_per_block = kernels.back().plan().rows_per_block / c.group_size;
  const std::int64_t head_tiles = (c.heads + heads_per_block - 1) / heads_per_block;
  const std::int64_t launched_groups = mutation == Mutation::tail_skipped ? groups - 1 : groups;
  params.tokens = std::min(c.tokens, launched_groups * c.group_size);
  // A persistent kernel takes any number of blocks, one a (group, head tile) too.
  const Grid grid{static_cast<std::uint32_t>(launched_groups * head_tiles), 1, 1};
  if (auto r = kernels.back().launch(grid, params, stream->handle()); !r) return fail(std::move(r.error()));
  if (auto r = stream->synchronize(); !r) return fail(std::move(r.error()));
  auto outputs = problem->download();
  if (!outputs) return fail(std::move(outputs.error()));
  return CaseOutcome{judge(c, *inputs, *outputs), outputs->gaps_untouched, std::move(outputs->out), op->reports()};
}

}  // namespace kernwright::cases
