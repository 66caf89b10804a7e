// Two preparations at once: on a cold store each compile takes hundreds of milliseconds.
#pragma once

#include <future>
#include <system_error>
#include <type_traits>

namespace kernwright {

/// Runs `work` on a thread of its own, or, where none can be started, when its result is asked for.
template <class Work>
std::future<std::invoke_result_t<Work>> beside(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

}  // namespace kernwright
