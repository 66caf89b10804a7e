// The edge of the library: no exception crosses it.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "kernwright/result.hpp"

namespace kernwright {

/// What `call` answers, or, where something below it threw, the error that says so.
template <class Call>
std::invoke_result_t<Call> without_exceptions(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "the host's memory is exhausted");
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::internal, std::string("an exception inside the library: ") + thrown.what());
  }
}

}  // namespace kernwright
