#include "c_api/handles.hpp"

#include <fmt/format.h>

#include <cmath>

namespace kernwright::c_api {

Result<DeviceId> read_device(kw_device device) {
  if (device < KW_HOST) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the device is {}; legal is the ordinal of a CUDA device, or KW_HOST ({})", device, int{KW_HOST}));
  }
  return device_of(device);
}

Result<DType> read_dtype(kw_dtype dtype, DType otherwise, std::string_view name) {
  if (dtype == 0) return otherwise;
  if (dtype < KW_BF16 || dtype > KW_U8) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is {}; legal is a KW_… element type, {} to {}", name, dtype, int{KW_BF16}, int{KW_U8}));
  }
  return static_cast<DType>(dtype);
}
static_assert(static_cast<int>(DType::bf16) == KW_BF16 && static_cast<int>(DType::u8) == KW_U8);

Result<TensorView> read_tensor(const kw_tensor* tensor, std::string_view name) {
  if (tensor == nullptr) return TensorView{};
  const auto given = read_struct(tensor, name);
  if (!given) return tl::unexpected<Error>(given.error());
  const auto dtype = read_dtype(given->dtype, DType::bf16, name);
  if (!dtype) return tl::unexpected<Error>(dtype.error());
  TensorView view;
  view.data = given->data;
  view.dtype = *dtype;
  view.rank = given->rank;
  for (std::size_t d = 0; d < TensorView::kMaxRank; ++d) {
    view.shape[d] = given->shape[d];
    view.stride[d] = given->stride[d];
  }
  return view;
}

Result<> write_tensor(kw_tensor* to, const TensorView& view, std::string_view name) {
  kw_tensor tensor;
  kw_init(&tensor);
  tensor.data = view.data;
  tensor.dtype = static_cast<kw_dtype>(view.dtype);
  tensor.rank = view.rank;
  for (std::size_t d = 0; d < TensorView::kMaxRank; ++d) {
    tensor.shape[d] = view.shape[d];
    tensor.stride[d] = view.stride[d];
  }
  return write_struct(to, tensor, name);
}

Result<std::optional<Tile>> read_tile(const char* tile) {
  if (tile == nullptr || *tile == '\0') return std::optional<Tile>();
  auto parsed = Tile::parse(tile);
  if (!parsed) return fail(std::move(parsed.error()));
  return std::optional<Tile>(std::move(*parsed));
}

Result<> hand_out_reports(kw_reports** to, std::vector<PrepareReport> reports) {
  if (auto r = clear(to, "reports"); !r) return r;
  auto made = std::make_unique<kw_reports>();
  made->reports = std::move(reports);
  for (const PrepareReport& report : made->reports) {
    made->text.push_back({report.specialisation.text(), report.tile_asked.text(), report.tile_fitted.text()});
  }
  *to = made.release();
  return {};
}

namespace {

template <class Value, class Handle>
Result<> answer(const kw_future* future, Handle** to, std::string_view what) {
  if (auto r = clear(to, what); !r) return r;
  if (auto r = need(future, "future"); !r) return r;
  const auto* typed = std::get_if<std::shared_future<Result<Value>>>(&future->future);
  if (typed == nullptr) return fail(ErrorCode::invalid_argument, fmt::format("this future was not made for a {}", what));
  return hand_out(to, typed->get());
}

}  // namespace
}  // namespace kernwright::c_api

using namespace kernwright;
using namespace kernwright::c_api;

extern "C" {

kw_status kw_future_wait(const kw_future* future, double seconds) {
  return guarded([&]() -> Result<> {
    if (auto r = need(future, "future"); !r) return r;
    if (std::isnan(seconds)) return fail(ErrorCode::invalid_argument, "seconds is not a number; legal is any other, below 0 for ever");
    return std::visit(
        [&](const auto& waiting) -> Result<> {
          constexpr double kForEver = 1e8;  // three years; more would overflow the clock's arithmetic
          if (seconds < 0 || seconds >= kForEver) {
            waiting.wait();
            return {};
          }
          if (waiting.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready) return {};
          return fail(ErrorCode::timed_out, fmt::format("there is no answer after {} s; it is still being worked on", seconds));
        },
        future->future);
  });
}

kw_status kw_future_kernel(const kw_future* future, kw_kernel** kernel) {
  return guarded([&] { return answer<Kernel>(future, kernel, "kernel"); });
}

kw_status kw_future_sparse_mla_prefill(const kw_future* future, kw_sparse_mla_prefill** op) {
  return guarded([&] { return answer<SparseMlaPrefill>(future, op, "sparse MLA prefill"); });
}

kw_status kw_future_paged_mla_decode(const kw_future* future, kw_paged_mla_decode** op) {
  return guarded([&] { return answer<PagedMlaDecode>(future, op, "paged MLA decode"); });
}

void kw_future_destroy(kw_future* future) {
  delete future;
}

kw_status kw_reports_count(const kw_reports* reports, size_t* count) {
  return guarded([&]() -> Result<> {
    if (auto r = need(reports, "reports"); !r) return r;
    if (auto r = need(count, "count"); !r) return r;
    *count = reports->reports.size();
    return {};
  });
}

kw_status kw_reports_get(const kw_reports* reports, size_t index, kw_prepare_report* report) {
  return guarded([&]() -> Result<> {
    if (auto r = need(reports, "reports"); !r) return r;
    if (index >= reports->reports.size()) {
      return fail(ErrorCode::invalid_argument, fmt::format("index is {}; there are {} reports", index, reports->reports.size()));
    }
    const PrepareReport& from = reports->reports[index];
    const kw_reports::Text& text = reports->text[index];
    kw_prepare_report values;
    kw_init(&values);
    values.template_name = from.template_name.c_str();
    values.specialisation = text.specialisation.c_str();
    values.target = from.target.name().c_str();
    values.tile_asked = text.tile_asked.c_str();
    values.tile_fitted = text.tile_fitted.c_str();
    values.fit_reason = from.fit_reason.c_str();
    values.key = from.key.c_str();
    values.compile_ms = from.compile_ms;
    values.cache = static_cast<kw_cache_source>(from.cache);
    values.device = device_number(from.device);
    values.fit_recorded = from.fit_recorded ? 1 : 0;
    values.registers = from.resources.registers;
    values.spill_stores = from.resources.spill_stores.count;
    values.spill_loads = from.resources.spill_loads.count;
    return write_struct(report, values, "report");
  });
}

void kw_reports_destroy(kw_reports* reports) {
  delete reports;
}

}  // extern "C"

static_assert(static_cast<int>(CacheSource::memory) == KW_CACHE_MEMORY && static_cast<int>(CacheSource::built) == KW_CACHE_BUILT);
