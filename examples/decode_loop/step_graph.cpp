#include "step_graph.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <string>
#include <utility>

namespace decode_loop {
namespace {

using kernwright::ErrorCode;
using kernwright::fail;
using kernwright::Result;

/// An engine links the driver; this example is built on machines without one.
template <class Function>
Function entry(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(driver, name));
}

/// Calls a driver function, or answers with its name and code.
template <class Function, class... Arguments>
Result<> call(const char* name, Arguments... arguments) {
  const auto function = entry<Function*>(name);
  if (function == nullptr) return fail(ErrorCode::driver_unavailable, std::string("the CUDA driver has no ") + name);
  const CUresult result = function(arguments...);
  if (result == CUDA_SUCCESS) return {};
  return fail(ErrorCode::launch_failed, std::string(name) + " answered " + std::to_string(static_cast<int>(result)));
}

CUstream native(kernwright::StreamHandle stream) {
  return static_cast<CUstream>(stream.native);
}

/// Graphs are instantiated, launched and destroyed in a current context. Kernwright's streams live in the device's primary one.
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

Result<StepGraph> StepGraph::capture(kernwright::StreamHandle stream, const std::function<Result<>()>& enqueue) {
  const PrimaryContext current;
  Result<> done = current.entered();
  if (done) {
    done = call<decltype(::cuStreamBeginCapture)>("cuStreamBeginCapture_v2", native(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  if (!done) return fail(std::move(done.error()));
  const Result<> enqueued = enqueue();
  CUgraph graph = nullptr;
  done = call<decltype(::cuStreamEndCapture)>("cuStreamEndCapture", native(stream), &graph);  // whatever enqueue said
  if (!enqueued) done = enqueued;
  CUgraphExec executable = nullptr;
  std::size_t nodes = 0;
  if (done) done = call<decltype(::cuGraphGetNodes)>("cuGraphGetNodes", graph, static_cast<CUgraphNode*>(nullptr), &nodes);
  if (done) done = call<decltype(::cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
  if (graph != nullptr) (void)call<decltype(::cuGraphDestroy)>("cuGraphDestroy", graph);
  if (!done) return fail(std::move(done.error()));
  return StepGraph(executable, nodes);
}

StepGraph::StepGraph(StepGraph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)), launches_(other.launches_) {}

StepGraph::~StepGraph() {
  if (executable_ == nullptr) return;
  const PrimaryContext current;
  (void)call<decltype(::cuGraphExecDestroy)>("cuGraphExecDestroy", static_cast<CUgraphExec>(executable_));
}

Result<> StepGraph::replay(kernwright::StreamHandle stream) const {
  const PrimaryContext current;
  if (!current.entered()) return current.entered();
  return call<decltype(::cuGraphLaunch)>("cuGraphLaunch", static_cast<CUgraphExec>(executable_), native(stream));
}

}  // namespace decode_loop
