#include "gpu/graph_capture.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <utility>

namespace kernwright::gpu {
namespace {

/// The already loaded driver's entry point.
template <class Function>
Function entry(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* const found = driver == nullptr ? nullptr : dlsym(driver, name);
  REQUIRE_MESSAGE(found != nullptr, name);
  return reinterpret_cast<Function>(found);
}

CUstream native(StreamHandle stream) {
  return static_cast<CUstream>(stream.native);
}

/// Instantiating and destroying a graph need a current context, which the library leaves as it finds it: none.
class PrimaryContext {
 public:
  PrimaryContext() {
    CUcontext context = nullptr;
    REQUIRE(entry<decltype(&::cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0) == CUDA_SUCCESS);
    REQUIRE(entry<decltype(&::cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context) == CUDA_SUCCESS);
  }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext() {
    CUcontext popped = nullptr;
    entry<decltype(&::cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped);
    entry<decltype(&::cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease_v2")(0);
  }
};

}  // namespace

void CapturedGraph::begin(StreamHandle stream) {
  REQUIRE(entry<decltype(&::cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(native(stream), CU_STREAM_CAPTURE_MODE_GLOBAL) ==
          CUDA_SUCCESS);
}

CapturedGraph CapturedGraph::end(StreamHandle stream) {
  CUgraph graph = nullptr;
  REQUIRE(entry<decltype(&::cuStreamEndCapture)>("cuStreamEndCapture")(native(stream), &graph) == CUDA_SUCCESS);
  const PrimaryContext current;
  std::size_t nodes = 0;
  REQUIRE(entry<decltype(&::cuGraphGetNodes)>("cuGraphGetNodes")(graph, nullptr, &nodes) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  REQUIRE(entry<decltype(&::cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&exec, graph, 0) == CUDA_SUCCESS);
  entry<decltype(&::cuGraphDestroy)>("cuGraphDestroy")(graph);
  return {exec, nodes};
}

CapturedGraph::CapturedGraph(CapturedGraph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)), nodes_(other.nodes_) {}

CapturedGraph::~CapturedGraph() {
  if (exec_ == nullptr) return;
  const PrimaryContext current;
  entry<decltype(&::cuGraphExecDestroy)>("cuGraphExecDestroy")(exec_);
}

void CapturedGraph::replay(StreamHandle stream) const {
  const PrimaryContext current;
  REQUIRE(entry<decltype(&::cuGraphLaunch)>("cuGraphLaunch")(exec_, native(stream)) == CUDA_SUCCESS);
}

}  // namespace kernwright::gpu
