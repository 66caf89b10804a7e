// The host backend with a compiler that remembers: hundreds of cold launches cost two runs of g++.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backend/backend.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright::robustness {

/// The real host backend in everything but this: a request that was compiled before gets the same bytes again. The store and everything
/// behind it see no difference. Thread-safe.
std::shared_ptr<Backend> make_replay_backend();

}  // namespace kernwright::robustness
