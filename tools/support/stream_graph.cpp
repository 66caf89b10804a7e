#include "support/stream_graph.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <string>
#include <utility>

namespace kernwright::support {
namespace {

/// The entry point of the driver that the runtime has opened; null where there is none.
void* entry(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

/// Calls a driver function, or answers with its name and code.
template <class Function, class... Arguments>
Result<> call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<Function*>(entry(name));
  if (function == nullptr) return fail(ErrorCode::driver_unavailable, std::string("the CUDA driver has no ") + name);
  const CUresult result = function(arguments...);
  if (result == CUDA_SUCCESS) return {};
  return fail(ErrorCode::launch_failed, std::string(name) + " answered " + std::to_string(static_cast<int>(result)));
}

CUstream native(StreamHandle stream) {
  return static_cast<CUstream>(stream.native);
}

/// Instantiating, launching and destroying a graph need a current context, which the library leaves as it finds it: none.
class PrimaryContext {
 public:
  PrimaryContext() {
    CUcontext context = nullptr;
    entered_ = call<decltype(::cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context, 0);
    if (!entered_) return;
    retained_ = true;
    entered_ = call<decltype(::cuCtxPushCurrent)>("cuCtxPushCurrent_v2", context);
  }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext() {
    CUcontext popped = nullptr;
    if (entered_) (void)call<decltype(::cuCtxPopCurrent)>("cuCtxPopCurrent_v2", &popped);
    if (retained_) (void)call<decltype(::cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease_v2", 0);
  }
  [[nodiscard]] const Result<>& entered() const { return entered_; }

 private:
  bool retained_ = false;
  Result<> entered_;
};

}  // namespace

Result<> StreamGraph::begin(StreamHandle stream) {
  return call<decltype(::cuStreamBeginCapture)>("cuStreamBeginCapture_v2", native(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

Result<StreamGraph> StreamGraph::end(StreamHandle stream) {
  CUgraph graph = nullptr;
  if (auto ended = call<decltype(::cuStreamEndCapture)>("cuStreamEndCapture", native(stream), &graph); !ended) {
    return fail(std::move(ended.error()));
  }
  const PrimaryContext current;
  CUgraphExec executable = nullptr;
  std::size_t nodes = 0;
  Result<> done = current.entered();
  if (done) done = call<decltype(::cuGraphGetNodes)>("cuGraphGetNodes", graph, static_cast<CUgraphNode*>(nullptr), &nodes);
  if (done) done = call<decltype(::cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
  (void)call<decltype(::cuGraphDestroy)>("cuGraphDestroy", graph);
  if (!done) return fail(std::move(done.error()));
  return StreamGraph(executable, nodes);
}

Result<StreamGraph> StreamGraph::capture(StreamHandle stream, const std::function<Result<>()>& enqueue) {
  if (auto begun = begin(stream); !begun) return fail(std::move(begun.error()));
  Result<> enqueued = enqueue();
  auto graph = end(stream);  // whatever enqueue said: the stream must not go on capturing
  if (!enqueued) return fail(std::move(enqueued.error()));
  return graph;
}

StreamGraph::StreamGraph(StreamGraph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)), nodes_(other.nodes_) {}

StreamGraph::~StreamGraph() {
  if (executable_ == nullptr) return;
  const PrimaryContext current;
  (void)call<decltype(::cuGraphExecDestroy)>("cuGraphExecDestroy", static_cast<CUgraphExec>(executable_));
}

Result<> StreamGraph::replay(StreamHandle stream) const {
  const PrimaryContext current;
  if (!current.entered()) return current.entered();
  return call<decltype(::cuGraphLaunch)>("cuGraphLaunch", static_cast<CUgraphExec>(executable_), native(stream));
}

}  // namespace kernwright::support
