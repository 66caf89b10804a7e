// A stored entry's PTX, for people who read it.
#pragma once

#include <string>

#include "artifact.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright {

struct PtxText {
  std::string text;
  CompilerIdentity compiler;  ///< The NVRTC that made it, which need not be the entry's.
};
/// Compiles the request's stored sources with the NVRTC that is here. `options` have been resolved against the environment. Errors:
/// unsupported for the target host, and those of NvrtcCompiler.
Result<PtxText> make_ptx(const RuntimeOptions& options, const BuildRequest& request);

}  // namespace kernwright
