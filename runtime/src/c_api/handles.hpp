// What stands behind the opaque handles: the C++ objects, and the text that was answered for them.
#pragma once

#include <future>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "c_api/boundary.hpp"
#include "kernwright/paged_kv.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "kernwright/runtime.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "kernwright/unified_pool.hpp"

struct kw_runtime {
  kernwright::Runtime runtime;
  std::string store_folder;
};
struct kw_kernel {
  kernwright::Kernel kernel;
};
struct kw_sparse_mla_prefill {
  kernwright::SparseMlaPrefill op;
};
struct kw_paged_kv {
  kernwright::PagedKv op;
};
struct kw_paged_mla_decode {
  kernwright::PagedMlaDecode op;
};
struct kw_unified_pool {
  kernwright::UnifiedPool pool;
};
struct kw_buffer {
  kernwright::DeviceBuffer buffer;
};
struct kw_stream {
  kernwright::Stream stream;
};
struct kw_future {
  std::variant<std::shared_future<kernwright::Result<kernwright::Kernel>>,
               std::shared_future<kernwright::Result<kernwright::SparseMlaPrefill>>,
               std::shared_future<kernwright::Result<kernwright::PagedMlaDecode>>>
      future;
};
struct kw_reports {
  struct Text {
    std::string specialisation, tile_asked, tile_fitted;
  };
  std::vector<kernwright::PrepareReport> reports;
  std::vector<Text> text;  ///< As many.
};
struct kw_warm_result {
  kernwright::WarmSummary summary;
  struct Text {
    std::string specialisation, tile;
  };
  std::vector<Text> text;  ///< One an item.
};

namespace kernwright::c_api {

constexpr DeviceId device_of(kw_device device) noexcept {
  return device == KW_HOST ? DeviceId::host() : DeviceId::cuda(device);
}
constexpr kw_device device_number(DeviceId device) noexcept {
  return device.backend == BackendKind::host ? KW_HOST : device.ordinal;
}
Result<DeviceId> read_device(kw_device device);
/// `otherwise` where it is 0.
Result<DType> read_dtype(kw_dtype dtype, DType otherwise, std::string_view name);
/// Absent where null.
Result<TensorView> read_tensor(const kw_tensor* tensor, std::string_view name);
Result<> write_tensor(kw_tensor* to, const TensorView& view, std::string_view name);
Result<std::optional<Tile>> read_tile(const char* tile);
constexpr int or_default(int value, int otherwise) noexcept {
  return value == 0 ? otherwise : value;
}

/// A handle of its own for `value`.
template <class Handle, class Value>
Result<> hand_out(Handle** to, Result<Value> value) {
  if (!value) return fail(std::move(value.error()));
  *to = new Handle{std::move(*value)};
  return {};
}

/// The body of an op's kw_..._create: nothing is read before the out parameter is null and the runtime is there. `read` makes the op's
/// options of `options`, and `name` is the out parameter's.
template <class Op, class Handle, class Options, class Read>
Result<> create_op(Handle** op, std::string_view name, const kw_runtime* runtime, const Options* options, Read read) {
  if (auto r = clear(op, name); !r) return r;
  if (auto r = need(runtime, "runtime"); !r) return r;
  const auto wanted = read(options);
  if (!wanted) return tl::unexpected<Error>(wanted.error());
  return hand_out(op, Op::create(runtime->runtime, *wanted));
}
/// The same for kw_..._create_async.
template <class Op, class Options, class Read>
Result<> create_op_async(kw_future** future, const kw_runtime* runtime, const Options* options, Read read) {
  if (auto r = clear(future, "future"); !r) return r;
  if (auto r = need(runtime, "runtime"); !r) return r;
  const auto wanted = read(options);
  if (!wanted) return tl::unexpected<Error>(wanted.error());
  *future = new kw_future{Op::create_async(runtime->runtime, *wanted)};
  return {};
}
Result<> hand_out_reports(kw_reports** to, std::vector<PrepareReport> reports);

}  // namespace kernwright::c_api
