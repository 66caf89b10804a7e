// The two backends' constructors. Each opens its libraries or compiler on first use, not here.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "kernwright/runtime.hpp"
#include "platform/file_system.hpp"
#include "platform/logger.hpp"

namespace kernwright {

/// Options have been resolved against the environment already (every optional that has a default is set).
std::shared_ptr<Backend> make_cuda_backend(const RuntimeOptions& options, Logger logger);
std::shared_ptr<Backend> make_host_backend(const RuntimeOptions& options, Logger logger);

}  // namespace kernwright
