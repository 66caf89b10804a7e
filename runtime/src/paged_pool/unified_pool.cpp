#include "kernwright/unified_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "backend/backend.hpp"
#include "ops/stepping_kernel.hpp"
#include "paged_kv/update_tables_params.cuh"
#include "paged_pool/page_mapping.hpp"
#include "prepare/boundary.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {
namespace {

using kw::paged_kv::UpdateTablesParams;

constexpr std::int64_t kListed = 4096;  // pages that one launch moves or zeroes: the list's room on the device
constexpr std::uint64_t kVectorBytes = 16;
constexpr std::int64_t kLargestPages = std::int64_t{1} << 32;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

tl::unexpected<Error> refuse(std::string_view option, const std::string& came, std::string_view legal) {
  return fail(ErrorCode::invalid_argument, fmt::format("option {} is {}; legal is {}", option, came, legal));
}

/// The arrays of one side on the device, in the order in which update_tables numbers them.
constexpr int kV2p = 0, kP2v = 1, kMoves = 2, kZeroed = 3;

struct Side {
  Side(PageMapping pages, std::uint64_t envelope) : mapping(std::move(pages)), page_bytes(envelope) {}

  PageMapping mapping;
  std::uint64_t page_bytes;
  DeviceBuffer v2p, p2v, moves, zeroed;
  std::int64_t highest = 1;
  std::int64_t moved = 0;
  std::int64_t compactions = 0;

  [[nodiscard]] std::uint64_t bytes(std::int64_t pages) const { return static_cast<std::uint64_t>(pages) * page_bytes; }
};

}  // namespace

std::string_view to_string(PoolSide side) noexcept {
  return side == PoolSide::kv ? "kv" : "state";
}

struct UnifiedPool::State {
  Runtime runtime;
  UnifiedPoolOptions options;
  PagedKv kernels;
  std::unique_ptr<SteppingKernel> update_tables;
  DeviceBuffer buffer;
  Side kv;
  std::optional<Side> state;
  Event last;  ///< Behind everything that was enqueued so far.
  StreamHandle last_stream;
  bool enqueued = false;
  std::optional<Error> broken;  ///< A launch failed half-way: tables and bytes may differ from what the host knows.

  [[nodiscard]] Side* side(PoolSide which) { return which == PoolSide::kv ? &kv : state ? &*state : nullptr; }
  [[nodiscard]] std::byte* base() const { return static_cast<std::byte*>(buffer.data()); }

  /// A side's pages as the page kernels number them: kv pages upwards from the start, state pages downwards from the end of the pages.
  struct Numbering {
    std::byte* origin;
    std::int64_t sign;
  };
  [[nodiscard]] Numbering numbering(PoolSide which) const {
    if (which == PoolSide::kv) return {base(), 1};
    return {base() + options.size.count - state->page_bytes, -1};
  }

  /// Pages by which a side could grow beyond its watermark before the two meet.
  [[nodiscard]] std::int64_t room(PoolSide which) {
    const Side& own = *side(which);
    const std::uint64_t used = kv.bytes(kv.mapping.watermark()) + (state ? state->bytes(state->mapping.watermark()) : 0);
    const auto by_bytes = static_cast<std::int64_t>((options.size.count - used) / own.page_bytes);
    return std::min(by_bytes, own.mapping.physical_pages() - own.mapping.watermark());
  }

  Result<Side*> begin(PoolSide which, StreamHandle stream);
  Result<> finish(Result<> done, StreamHandle stream);
  /// Launches that give the side's tables and lists these values.
  Result<> update(Side& side, const std::vector<UpdateTablesParams::Cell>& cells, StreamHandle stream) const;
  Result<> close_holes(PoolSide which, Side& side, std::set<std::int64_t> touched_virtual, std::set<std::int64_t> touched_physical,
                       std::int64_t& moved, StreamHandle stream) const;
  Result<> zero(PoolSide which, Side& side, std::span<const std::int64_t> physical_pages, StreamHandle stream) const;
};

namespace {

UpdateTablesParams::Cell cell(int table, std::int64_t index, std::int64_t value) {
  return {index * kw::paged_kv::most_tables + table, value};
}

/// What the mapping now says of these pages.
std::vector<UpdateTablesParams::Cell> mapping_cells(const PageMapping& mapping, const std::set<std::int64_t>& virtual_pages,
                                                    const std::set<std::int64_t>& physical_pages) {
  std::vector<UpdateTablesParams::Cell> cells;
  for (const std::int64_t page : virtual_pages) cells.push_back(cell(kV2p, page, mapping.v2p()[at(page)]));
  for (const std::int64_t page : physical_pages) cells.push_back(cell(kP2v, page, mapping.p2v()[at(page)]));
  return cells;
}

Result<> check_options(const UnifiedPoolOptions& options, std::uint64_t kv_page, std::uint64_t tail) {
  if (options.kv_virtual_pages < 2 || options.kv_virtual_pages > kLargestPages) {
    return refuse("kv_virtual_pages", std::to_string(options.kv_virtual_pages), fmt::format("2 (one is the sink) to {}", kLargestPages));
  }
  const bool has_state = options.state_page_bytes.count > 0;
  if (has_state && options.state_page_bytes.count % kVectorBytes != 0) {
    return refuse("state_page_bytes", std::to_string(options.state_page_bytes.count), "a multiple of 16, or 0");
  }
  if (has_state && (options.state_virtual_pages < 2 || options.state_virtual_pages > kLargestPages)) {
    return refuse("state_virtual_pages", std::to_string(options.state_virtual_pages),
                  fmt::format("2 (one is the sink) to {}", kLargestPages));
  }
  const std::uint64_t smallest = kv_page + options.state_page_bytes.count;
  if (options.size.count < smallest || options.size.count % kVectorBytes != 0 || options.size.count > std::uint64_t{1} << 46) {
    return refuse("size", std::to_string(options.size.count),
                  fmt::format("a multiple of 16 from {} bytes, the sink pages (a kv page has {}, its dense views {} more behind the last)",
                              smallest, kv_page, tail));
  }
  return {};
}

}  // namespace

UnifiedPool::UnifiedPool(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
UnifiedPool::UnifiedPool(UnifiedPool&&) noexcept = default;
UnifiedPool& UnifiedPool::operator=(UnifiedPool&&) noexcept = default;
UnifiedPool::~UnifiedPool() = default;

Result<UnifiedPool> UnifiedPool::create(const Runtime& runtime, const UnifiedPoolOptions& options) {
  return without_exceptions([&]() -> Result<UnifiedPool> {
    const std::string step = "making a unified pool";
    PagedKvOptions kernel_options;
    kernel_options.device = options.device;
    kernel_options.page_size = options.page_size;
    kernel_options.multiplier = options.layers;
    kernel_options.has_table = true;
    kernel_options.token_dtype = options.token_dtype;
    kernel_options.request_dtype = options.request_dtype;
    kernel_options.index_dtype = options.index_dtype;
    kernel_options.latent_width = options.latent_width;
    kernel_options.rope_width = options.rope_width;
    kernel_options.dtype = options.dtype;
    const auto row_bytes = static_cast<std::uint64_t>(std::max(0, options.latent_width) + std::max(0, options.rope_width)) *
                           static_cast<std::uint64_t>(element_bytes(options.dtype));
    const std::uint64_t layer_bytes = static_cast<std::uint64_t>(std::max(1, options.page_size)) * row_bytes;
    const std::uint64_t kv_page = static_cast<std::uint64_t>(std::max(1, options.layers)) * layer_bytes;
    const std::uint64_t tail = kv_page - layer_bytes;
    if (auto checked = check_options(options, kv_page, tail); !checked) return fail(std::move(checked.error()).within(step));
    if (kv_page == 0) return refuse("latent_width", std::to_string(options.latent_width), "at least 16 bytes of elements");
    const auto kv_pages = static_cast<std::int64_t>((options.size.count - options.state_page_bytes.count) / kv_page);
    kernel_options.pages = std::max<std::int64_t>(kv_pages, 1);

    auto kernels = PagedKv::create(runtime, kernel_options);
    if (!kernels) return fail(std::move(kernels.error()).within(step));
    auto update = SteppingKernel::create(
        runtime, {"paged_kv/update_tables", {}, options.device, std::nullopt, sizeof(UpdateTablesParams), std::nullopt});
    if (!update) return fail(std::move(update.error()).within(step));
    auto buffer = runtime.allocate(options.device, Bytes{options.size.count + tail});
    if (!buffer) return fail(std::move(buffer.error()).within(step));
    if (auto filled = buffer->fill(std::byte{0}); !filled) return fail(std::move(filled.error()).within(step));
    auto event = runtime.create_event(options.device);
    if (!event) return fail(std::move(event.error()).within(step));

    auto state = std::make_unique<State>(State{.runtime = runtime,
                                               .options = options,
                                               .kernels = std::move(*kernels),
                                               .update_tables = std::move(*update),
                                               .buffer = std::move(*buffer),
                                               .kv = Side(PageMapping(options.kv_virtual_pages, kv_pages), kv_page),
                                               .state = std::nullopt,
                                               .last = std::move(*event),
                                               .last_stream = {},
                                               .enqueued = false,
                                               .broken = std::nullopt});
    if (options.state_page_bytes.count > 0) {
      const auto pages = static_cast<std::int64_t>((options.size.count - kv_page) / options.state_page_bytes.count);
      state->state.emplace(PageMapping(options.state_virtual_pages, pages), options.state_page_bytes.count);
    }
    for (Side* side : {&state->kv, state->state ? &*state->state : nullptr}) {
      if (side == nullptr) continue;
      const auto array = [&](DeviceBuffer& to, const std::vector<std::int64_t>& values) -> Result<> {
        auto made = runtime.allocate(options.device, Bytes{values.size() * sizeof(std::int64_t)});
        if (!made) return fail(std::move(made.error()));
        to = std::move(*made);
        return to.upload(std::as_bytes(std::span(values)));
      };
      for (auto filled :
           {array(side->v2p, side->mapping.v2p()), array(side->p2v, side->mapping.p2v()),
            array(side->moves, std::vector<std::int64_t>(at(2 * kListed))), array(side->zeroed, std::vector<std::int64_t>(at(kListed)))}) {
        if (!filled) return fail(std::move(filled.error()).within(step));
      }
    }
    return UnifiedPool(std::move(state));
  });
}

Result<Side*> UnifiedPool::State::begin(PoolSide which, StreamHandle stream) {
  if (broken) return fail(Error(*broken));
  Side* const own = side(which);
  if (own == nullptr) {
    return fail(ErrorCode::invalid_argument, "side is state; legal is kv: the pool was made with state_page_bytes 0");
  }
  if (runtime.state().backend(options.device.backend)->is_capturing(stream)) {
    return fail(
        ErrorCode::capturing,
        "the stream captures, and a replay could not repeat what the host books for pages: allocate, free and compact between replays");
  }
  if (enqueued && stream.native != last_stream.native) {
    if (auto waited = last.enqueue_wait(stream); !waited) return fail(std::move(waited.error()));
  }
  return own;
}

Result<> UnifiedPool::State::finish(Result<> done, StreamHandle stream) {
  if (done) done = last.record(stream);
  last_stream = stream;
  enqueued = true;
  if (!done) {
    broken = done.error();
    broken->message = "the pool's tables on the device may differ from what is booked, since an earlier launch failed: " + broken->message;
  }
  return done;
}

Result<> UnifiedPool::State::update(Side& side, const std::vector<UpdateTablesParams::Cell>& cells, StreamHandle stream) const {
  UpdateTablesParams params{};
  params.tables[kV2p] = static_cast<long long*>(side.v2p.data());
  params.tables[kP2v] = static_cast<long long*>(side.p2v.data());
  params.tables[kMoves] = static_cast<long long*>(side.moves.data());
  params.tables[kZeroed] = static_cast<long long*>(side.zeroed.data());
  for (std::size_t first = 0; first < cells.size(); first += kw::paged_kv::most_cells) {
    const auto count = std::min<std::size_t>(kw::paged_kv::most_cells, cells.size() - first);
    std::copy_n(cells.begin() + static_cast<std::ptrdiff_t>(first), count, params.cells);
    params.count = static_cast<int>(count);
    if (auto launched = update_tables->launch(Grid{}, params, stream); !launched) return launched;
  }
  return {};
}

Result<> UnifiedPool::State::zero(PoolSide which, Side& side, std::span<const std::int64_t> physical_pages, StreamHandle stream) const {
  const Numbering pages = numbering(which);
  for (std::size_t first = 0; first < physical_pages.size(); first += at(kListed)) {
    const auto part = physical_pages.subspan(first, std::min(at(kListed), physical_pages.size() - first));
    std::vector<UpdateTablesParams::Cell> cells;
    for (std::size_t i = 0; i < part.size(); ++i) cells.push_back(cell(kZeroed, static_cast<std::int64_t>(i), pages.sign * part[i]));
    if (auto listed = update(side, cells, stream); !listed) return listed;
    const auto list = TensorView::contiguous(side.zeroed.data(), DType::i64, {static_cast<std::int64_t>(part.size())});
    if (auto zeroed = kernels.zero_pages(pages.origin, Bytes{side.page_bytes}, list, stream); !zeroed) return zeroed;
  }
  return {};
}

Result<> UnifiedPool::State::close_holes(PoolSide which, Side& side, std::set<std::int64_t> touched_virtual,
                                         std::set<std::int64_t> touched_physical, std::int64_t& moved, StreamHandle stream) const {
  const std::vector<PageMapping::Move> moves = side.mapping.close_holes();
  for (const PageMapping::Move& move : moves) {
    touched_physical.insert({move.from, move.to});
    touched_virtual.insert(side.mapping.p2v()[at(move.to)]);
  }
  moved = static_cast<std::int64_t>(moves.size());
  side.moved += moved;
  side.compactions += moved > 0 ? 1 : 0;
  const Numbering pages = numbering(which);
  std::vector<UpdateTablesParams::Cell> cells = mapping_cells(side.mapping, touched_virtual, touched_physical);
  for (std::size_t first = 0; first < moves.size(); first += at(kListed)) {
    const std::size_t count = std::min(at(kListed), moves.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::int64_t>(2 * i);
      cells.push_back(cell(kMoves, row, pages.sign * moves[first + i].from));
      cells.push_back(cell(kMoves, row + 1, pages.sign * moves[first + i].to));
    }
    if (auto listed = update(side, cells, stream); !listed) return listed;
    cells.clear();
    const auto list = TensorView::contiguous(side.moves.data(), DType::i64, {static_cast<std::int64_t>(count), 2});
    if (auto copied = kernels.move_pages(pages.origin, Bytes{side.page_bytes}, list, stream); !copied) return copied;
  }
  return update(side, cells, stream);
}

Result<std::vector<std::int64_t>> UnifiedPool::allocate(PoolSide side, std::int64_t count, StreamHandle stream) {
  return without_exceptions([&]() -> Result<std::vector<std::int64_t>> {
    auto begun = state_->begin(side, stream);
    if (!begun) return fail(std::move(begun.error()));
    Side& own = **begun;
    if (count < 0) return fail(ErrorCode::invalid_argument, fmt::format("count is {}; legal is 0 and more", count));
    if (count > own.mapping.free_virtual_pages()) {
      return fail(ErrorCode::out_of_memory,
                  fmt::format("{} {} pages were asked for, {} of {} virtual pages are free; nothing was changed", count, to_string(side),
                              own.mapping.free_virtual_pages(), own.mapping.virtual_pages() - 1));
    }
    if (const std::int64_t growth = own.mapping.growth(count), room = state_->room(side); growth > room) {
      return fail(
          ErrorCode::out_of_memory,
          fmt::format("{} {} pages were asked for, {} holes and room for {} more are left between the two sides; nothing was changed",
                      count, to_string(side), own.mapping.holes(), room));
    }
    if (count == 0) return std::vector<std::int64_t>{};
    std::vector<std::int64_t> ids = own.mapping.bind(count);
    own.highest = std::max(own.highest, own.mapping.watermark());
    std::set<std::int64_t> physical;
    for (const std::int64_t id : ids) physical.insert(own.mapping.v2p()[at(id)]);
    const std::vector<std::int64_t> pages(physical.begin(), physical.end());
    Result<> done = state_->update(own, mapping_cells(own.mapping, {ids.begin(), ids.end()}, physical), stream);
    if (done && state_->options.zero_pages) done = state_->zero(side, own, pages, stream);
    done = state_->finish(std::move(done), stream);
    if (!done) return fail(std::move(done.error()));
    return ids;
  });
}

Result<> UnifiedPool::free(PoolSide side, std::span<const std::int64_t> virtual_pages, StreamHandle stream) {
  return without_exceptions([&]() -> Result<> {
    auto begun = state_->begin(side, stream);
    if (!begun) return fail(std::move(begun.error()));
    Side& own = **begun;
    if (auto checked = own.mapping.check_bound(virtual_pages); !checked) return checked;
    if (virtual_pages.empty()) return {};
    std::set<std::int64_t> touched(virtual_pages.begin(), virtual_pages.end());
    std::set<std::int64_t> physical;
    for (const std::int64_t id : virtual_pages) physical.insert(own.mapping.v2p()[at(id)]);
    own.mapping.unbind(virtual_pages);
    std::int64_t moved = 0;
    return state_->finish(state_->options.compaction == Compaction::eager
                              ? state_->close_holes(side, own, std::move(touched), std::move(physical), moved, stream)
                              : state_->update(own, mapping_cells(own.mapping, touched, physical), stream),
                          stream);
  });
}

Result<std::int64_t> UnifiedPool::compact(PoolSide side, StreamHandle stream) {
  return without_exceptions([&]() -> Result<std::int64_t> {
    auto begun = state_->begin(side, stream);
    if (!begun) return fail(std::move(begun.error()));
    std::int64_t moved = 0;
    auto done = state_->finish(state_->close_holes(side, **begun, {}, {}, moved, stream), stream);
    if (!done) return fail(std::move(done.error()));
    return moved;
  });
}

Result<> UnifiedPool::wait(StreamHandle stream) {
  if (!state_->enqueued || stream.native == state_->last_stream.native) return {};
  return state_->last.enqueue_wait(stream);
}

PoolHooks UnifiedPool::hooks() const {
  return {v2p(PoolSide::kv), state_->options.page_size, state_->options.layers};
}

const PagedKv& UnifiedPool::kernels() const {
  return state_->kernels;
}

Result<TensorView> UnifiedPool::dense_view(int layer) const {
  const UnifiedPoolOptions& options = state_->options;
  if (layer < 0 || layer >= options.layers) {
    return fail(ErrorCode::invalid_argument, fmt::format("layer is {}; legal are 0 to {}", layer, options.layers - 1));
  }
  const std::int64_t width = options.latent_width + options.rope_width;
  const std::int64_t first = std::int64_t{layer} * options.page_size * width * element_bytes(options.dtype);
  const std::int64_t rows = state_->kv.mapping.physical_pages() * options.layers * options.page_size;
  return TensorView::contiguous(state_->base() + first, options.dtype, {rows, width});
}

TensorView UnifiedPool::v2p(PoolSide side) const {
  Side* const own = state_->side(side);
  if (own == nullptr) return {};
  return TensorView::contiguous(own->v2p.data(), DType::i64, {own->mapping.virtual_pages() + 1});
}

TensorView UnifiedPool::p2v(PoolSide side) const {
  Side* const own = state_->side(side);
  if (own == nullptr) return {};
  return TensorView::contiguous(own->p2v.data(), DType::i64, {own->mapping.physical_pages() + 1});
}

void* UnifiedPool::page_address(PoolSide side, std::int64_t virtual_page) const {
  Side* const own = state_->side(side);
  if (own == nullptr || virtual_page < 0 || virtual_page >= own->mapping.virtual_pages()) return nullptr;
  const std::int64_t page = own->mapping.v2p()[at(virtual_page)];
  if (page < 0) return nullptr;
  const State::Numbering pages = state_->numbering(side);
  return pages.origin + pages.sign * page * static_cast<std::int64_t>(own->page_bytes);
}

UnifiedPool::Statistics UnifiedPool::statistics(PoolSide side) const {
  Side* const own = state_->side(side);
  if (own == nullptr) return {};
  const PageMapping& mapping = own->mapping;
  Statistics statistics;
  statistics.watermark = mapping.watermark();
  statistics.holes = mapping.holes();
  statistics.used = mapping.watermark() - mapping.holes() - 1;
  statistics.highest = own->highest;
  statistics.moved_pages = own->moved;
  statistics.compactions = own->compactions;
  statistics.free_virtual = mapping.free_virtual_pages();
  statistics.free_pages = state_->room(side);
  return statistics;
}

}  // namespace kernwright
