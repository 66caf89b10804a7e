// Every paged kernel that addresses the pool, where offsets in elements and bytes no longer fit 32 bits.
#include <algorithm>
#include <numeric>

#include "backend/backend.hpp"
#include "cases/captured_step_case.hpp"
#include "cases/device_integers.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "kernwright/unified_pool.hpp"
#include "prepare/runtime_state.hpp"
#include "support/random.hpp"
#include "support/sparse_mla_check.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::cases {
namespace {

using support::Bf16;

constexpr int kPageSize = 64, kLayers = 24, kHeads = 8;
constexpr std::int64_t kRow = 576, kValues = 512, kTokens = 150, kFarPages = 3;
constexpr std::int64_t kPageElements = std::int64_t{kLayers} * kPageSize * kRow;
constexpr float kScale = 1.0F / 24.0F;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

void require(const Result<>& done) {
  REQUIRE_MESSAGE(done, (done ? "" : done.error().text()));
}

/// A pool that is full to its last page but for `kFarPages` low ones, and a request whose pages are the last.
class FarPages {
 public:
  FarPages(const Runtime& runtime, DeviceId device, Bytes size) : runtime_(runtime), device_(device) {
    const auto pages = static_cast<std::int64_t>(size.count / static_cast<std::uint64_t>(kPageElements * 2));
    UnifiedPoolOptions options;
    options.device = device;
    options.page_size = kPageSize;
    options.layers = kLayers;
    options.kv_virtual_pages = pages;
    options.size = Bytes{static_cast<std::uint64_t>(pages * kPageElements * 2)};
    options.compaction = Compaction::deferred;
    auto pool = UnifiedPool::create(runtime, options);
    REQUIRE_MESSAGE(pool, (pool ? "" : pool.error().text()));
    pool_.emplace(std::move(*pool));
    auto made = runtime.create_stream(device);
    REQUIRE(made);
    stream_ = std::move(*made);
    const auto bound = pool_->allocate(PoolSide::kv, pages - 1, stream());
    REQUIRE_MESSAGE(bound, (bound ? "" : bound.error().text()));
    low_.assign(bound->begin(), bound->begin() + kFarPages);
    far_.assign(bound->end() - kFarPages, bound->end());
    first_far_ = element_of(far_.front());
    for (std::int64_t t = 0; t < kTokens; ++t) tokens_.push_back(far_[at(t / kPageSize)] * kPageSize + t % kPageSize);
    rows_ = support::random_normal_bf16(kTokens * kRow, 11, 2);
    q_ = support::random_normal_bf16(kHeads * kRow, 11, 1);
  }
  [[nodiscard]] StreamHandle stream() const { return stream_.handle(); }
  [[nodiscard]] UnifiedPool& pool() { return *pool_; }
  [[nodiscard]] std::int64_t first_far_element() const { return first_far_; }

  /// Half of the rows by virtual ids, the others by dense ones that the kernels make.
  void write() {
    DeviceBuffer staged = upload(rows_);
    constexpr std::int64_t kHalf = kTokens / 2;
    const DeviceIntegers first(runtime_, device_, DType::i64, {tokens_.begin(), tokens_.begin() + kHalf});
    const DeviceIntegers second(runtime_, device_, DType::i64, {tokens_.begin() + kHalf, tokens_.end()});
    const DeviceIntegers dense(runtime_, device_, DType::i64, std::vector<std::int64_t>(at(kTokens - kHalf), -1));
    const PagedKv& kernels = pool_->kernels();
    const TensorView v2p = pool_->hooks().v2p;
    require(kernels.write_locations(second.line(), dense.line(), v2p, stream()));
    const auto part = [&](std::int64_t begin, std::int64_t count, std::int64_t column, std::int64_t width) {
      TensorView view = TensorView::contiguous(static_cast<Bf16*>(staged.data()) + begin * kRow + column, DType::bf16, {count, width});
      view.stride[0] = kRow;
      return view;
    };
    require(kernels.write_rows(part(0, kHalf, 0, kValues), part(0, kHalf, kValues, kRow - kValues), first.line(), false, view(), v2p,
                               stream()));
    require(kernels.write_rows(part(kHalf, kTokens - kHalf, 0, kValues), part(kHalf, kTokens - kHalf, kValues, kRow - kValues),
                               dense.line(), true, view(), v2p, stream()));
    REQUIRE(stream_.synchronize());
  }
  /// The rows, read back from where the mapping says that they are.
  void rows_are_there() const {
    std::int64_t wrong = 0;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const auto* const page = static_cast<const Bf16*>(pool_->page_address(PoolSide::kv, tokens_[at(t)] / kPageSize));
      const auto got = fetch(page + (kLayers - 1) * std::int64_t{kPageSize} * kRow + t % kPageSize * kRow, kRow);
      wrong += std::ranges::equal(got, std::span(rows_).subspan(at(t * kRow), at(kRow))) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  /// Attention over the block table, and over indices translated in place.
  void attention_is_right() {
    const DeviceIntegers ids(runtime_, device_, DType::i32, tokens_), request(runtime_, device_, DType::i64, {0});
    const DeviceIntegers length(runtime_, device_, DType::i64, {kTokens}), indices(runtime_, device_, DType::i32, tokens_);
    const DeviceIntegers table(runtime_, device_, DType::i32, std::vector<std::int64_t>(at(kFarPages), -1));
    const TensorView v2p = pool_->hooks().v2p;
    const PagedKvBatch batch{ids.table(1, kTokens, kTokens), request.line(), length.line(), {}, v2p};
    require(pool_->kernels().block_table(batch, table.table(1, kFarPages, kFarPages), stream()));
    require(pool_->kernels().translate(indices.line(), indices.line(), {}, v2p, stream()));
    const DeviceBuffer q = upload(q_), out = upload(std::vector<Bf16>(at(kHeads * kValues), 0xffff)),
                       lse = upload(std::vector<float>(at(kHeads), 0));
    PagedMlaDecodeOptions options;
    options.device = device_;
    options.heads = kHeads;
    options.page_size = kPageSize;
    options.pool = pool_->kind();
    auto decode = PagedMlaDecode::create(runtime_, options);
    REQUIRE_MESSAGE(decode, (decode ? "" : decode.error().text()));
    const DeviceBuffer workspace = allocate(decode->workspace_bytes());
    PagedMlaDecodeArguments a;
    a.q = TensorView::contiguous(q.data(), DType::bf16, {1, 1, kHeads, kRow});
    a.kv = view();
    a.block_table = table.table(1, kFarPages, kFarPages);
    a.seq_lens = length.line();
    a.sm_scale = kScale;
    a.out = TensorView::contiguous(out.data(), DType::bf16, {1, 1, kHeads, kValues});
    a.lse = TensorView::contiguous(lse.data(), DType::f32, {1, 1, kHeads});
    a.workspace = workspace.data();
    a.workspace_size = workspace.size();
    require(decode->run(a, stream()));
    judge(out, lse);

    SparseMlaPrefillOptions sparse_options;
    sparse_options.device = device_;
    sparse_options.heads = kHeads;
    sparse_options.max_topk = static_cast<int>(kTokens);
    sparse_options.group_size = 0;
    sparse_options.pool = pool_->kind();
    auto sparse = SparseMlaPrefill::create(runtime_, sparse_options);
    REQUIRE_MESSAGE(sparse, (sparse ? "" : sparse.error().text()));
    const DeviceBuffer sparse_out = upload(std::vector<Bf16>(at(kHeads * kValues), 0xffff)),
                       sparse_lse = upload(std::vector<float>(at(kHeads), 0));
    const DeviceBuffer sparse_workspace = allocate(sparse->workspace_bytes(1, view().shape[0]));
    SparseMlaPrefillArguments s;
    s.q = TensorView::contiguous(q.data(), DType::bf16, {1, kHeads, kRow});
    s.kv = view();
    s.indices = indices.table(1, kTokens, kTokens);
    s.sm_scale = kScale;
    s.out = TensorView::contiguous(sparse_out.data(), DType::bf16, {1, kHeads, kValues});
    s.lse = TensorView::contiguous(sparse_lse.data(), DType::f32, {1, kHeads});
    s.workspace = sparse_workspace.data();
    s.workspace_size = sparse_workspace.size();
    require(sparse->run(s, stream()));
    judge(sparse_out, sparse_lse);
  }
  /// The last page onto one of somebody else's, by the op itself: both addresses are far.
  void a_far_page_is_copied() {
    const std::int64_t last = element_of(far_.back()) / kPageElements, other = element_of(far_.front()) / kPageElements - 1;
    const DeviceIntegers moves(runtime_, device_, DType::i64, {last, other});
    const auto want = fetch(base() + last * kPageElements, kPageElements);
    CHECK(fetch(base() + other * kPageElements, kPageElements) != want);
    require(pool_->kernels().move_pages(base(), Bytes{kPageElements * 2}, moves.table(1, 2, 2), stream()));
    REQUIRE(stream_.synchronize());
    CHECK(fetch(base() + other * kPageElements, kPageElements) == want);
  }
  /// The low pages go, and the far ones move into their place.
  void compaction_brings_them_down() {
    require(pool_->free(PoolSide::kv, low_, stream()));
    const auto moved = pool_->compact(PoolSide::kv, stream());
    REQUIRE(moved);
    CHECK(*moved == kFarPages);
    REQUIRE(stream_.synchronize());
    CHECK(element_of(far_.front()) / kPageElements <= kFarPages);
    rows_are_there();
  }
  /// What is handed out again lies far, and is zero, though rows were there.
  void far_pages_are_handed_out_zeroed() {
    const auto again = pool_->allocate(PoolSide::kv, kFarPages, stream());
    REQUIRE(again);
    REQUIRE(stream_.synchronize());
    for (const std::int64_t page : *again) {
      const auto elements = fetch(static_cast<const Bf16*>(pool_->page_address(PoolSide::kv, page)), kPageElements);
      CHECK(std::ranges::all_of(elements, [](Bf16 value) { return value == 0; }));
    }
    CHECK(element_of(again->front()) >= first_far_);
  }

 private:
  [[nodiscard]] TensorView view() const { return *pool_->dense_view(kLayers - 1); }
  [[nodiscard]] Bf16* base() const { return static_cast<Bf16*>(pool_->dense_view(0)->data); }
  [[nodiscard]] std::int64_t element_of(std::int64_t page) const {
    return static_cast<const Bf16*>(pool_->page_address(PoolSide::kv, page)) - base();
  }
  [[nodiscard]] DeviceBuffer allocate(Bytes size) const {
    auto buffer = runtime_.allocate(device_, Bytes{std::max<std::uint64_t>(size.count, 256)});
    REQUIRE(buffer);
    return std::move(*buffer);
  }
  template <class T>
  [[nodiscard]] DeviceBuffer upload(const std::vector<T>& values) const {
    DeviceBuffer buffer = allocate(Bytes{values.size() * sizeof(T)});
    REQUIRE(buffer.upload(std::as_bytes(std::span(values))));
    return buffer;
  }
  [[nodiscard]] std::vector<Bf16> fetch(const Bf16* from, std::int64_t count) const {
    std::vector<Bf16> values(at(count));
    REQUIRE(runtime_.state().backend(device_.backend)->copy_from_device(device_, std::as_writable_bytes(std::span(values)), from));
    return values;
  }
  void judge(const DeviceBuffer& out, const DeviceBuffer& lse) const {
    REQUIRE(stream_.synchronize());
    std::vector<std::int32_t> indices(at(kTokens));
    std::iota(indices.begin(), indices.end(), 0);
    support::SparseMlaProblem problem;
    problem.tokens = 1;
    problem.heads = kHeads;
    problem.kv_rows = problem.topk = kTokens;
    problem.d_qk = kRow;
    problem.d_v = kValues;
    problem.q = q_;
    problem.kv = rows_;
    problem.indices = indices;
    problem.sm_scale = kScale;
    constexpr std::int64_t kOnly[]{0};
    const auto reference = support::sparse_mla_reference(problem, kOnly, support::RepeatedPositions::each);
    const auto got = fetch(static_cast<const Bf16*>(out.data()), kHeads * kValues);
    std::vector<float> got_lse(at(kHeads));
    REQUIRE(lse.download(std::as_writable_bytes(std::span(got_lse))));
    const auto check = support::check_sparse_mla(reference, {got, got_lse, {}});
    CHECK_MESSAGE(check.passed, check.first_failure);
  }

  Runtime runtime_;
  DeviceId device_;
  std::optional<UnifiedPool> pool_;
  Stream stream_;
  std::vector<std::int64_t> low_, far_, tokens_;
  std::int64_t first_far_ = 0;
  std::vector<Bf16> rows_, q_;
};

}  // namespace

std::int64_t far_pages_are_right(const Runtime& runtime, DeviceId device, Bytes size) {
  FarPages far(runtime, device, size);
  far.write();
  far.rows_are_there();
  far.attention_is_right();
  far.a_far_page_is_copied();
  far.compaction_brings_them_down();
  far.attention_is_right();
  far.far_pages_are_handed_out_zeroed();
  return far.first_far_element();
}

}  // namespace kernwright::cases
