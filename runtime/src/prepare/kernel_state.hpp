// What a Kernel handle shares.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "kernwright/kernel.hpp"
#include "prepare/counting.hpp"

namespace kernwright {

struct Kernel::State {
  std::shared_ptr<Backend> backend;  ///< Outlives `loaded`: declared first.
  std::unique_ptr<LoadedKernel> loaded;
  Plan plan;
  PrepareReport report;
  std::shared_ptr<LiveCounters::Count> launches;
};

}  // namespace kernwright
