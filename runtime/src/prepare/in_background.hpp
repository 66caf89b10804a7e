// A call whose answer comes later, made by one of the runtime's own threads.
#pragma once

#include <future>
#include <memory>
#include <utility>

#include "prepare/boundary.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

template <class T>
std::shared_future<Result<T>> answered(Result<T> result) {
  std::promise<Result<T>> promise;
  promise.set_value(std::move(result));
  return promise.get_future().share();
}

/// `call` gets a handle of the runtime and answers Result<T>. While it waits for its turn it does not keep the runtime; where that ends
/// first, the answer is `unsupported`.
template <class T, class Call>
std::shared_future<Result<T>> in_background(Runtime::State& state, Call call) {
  if (auto forked = state.fork_guard.check(); !forked) return answered<T>(fail(std::move(forked.error())));
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto future = promise->get_future().share();
  const auto ended = [promise] { promise->set_value(fail(ErrorCode::unsupported, "the runtime ended before this call began")); };
  state.background->add({.run =
                             [promise, ended, call = std::move(call), weak = state.weak_from_this()] {
                               auto alive = weak.lock();
                               if (!alive) return ended();
                               const Runtime runtime(std::move(alive));
                               promise->set_value(without_exceptions([&] { return call(runtime); }));
                             },
                         .drop = ended});
  return future;
}

}  // namespace kernwright
