#include "search/request_queue.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

namespace kernwright::tuning {

RequestQueue::RequestQueue(int descriptor) : state_(std::make_shared<State>()) {
  std::thread([descriptor, state = state_] { read(descriptor, *state); }).detach();
}

void RequestQueue::read(int descriptor, State& state) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) ::_exit(0);
    text.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      const std::lock_guard lock(state.mutex);
      state.lines.push_back(text.substr(0, end));
      text.erase(0, end + 1);
      state.changed.notify_one();
    }
  }
}

std::string RequestQueue::next() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return !state_->lines.empty(); });
  std::string line = std::move(state_->lines.front());
  state_->lines.pop_front();
  return line;
}

}  // namespace kernwright::tuning
