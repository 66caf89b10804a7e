#include "backend/cuda/ptx.hpp"

#include "backend/cuda/nvrtc_compiler.hpp"

namespace kernwright {

Result<PtxText> make_ptx(const RuntimeOptions& options, const BuildRequest& request) {
  NvrtcCompiler compiler(NvrtcSearch::from_process(options), options.compile_time_limit_seconds, Logger{});
  auto identity = compiler.identity();
  if (!identity) return fail(std::move(identity.error()));
  auto text = compiler.ptx(request);
  if (!text) return fail(std::move(text.error()));
  return PtxText{std::move(*text), std::move(*identity)};
}

}  // namespace kernwright
