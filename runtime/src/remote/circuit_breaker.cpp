#include "remote/circuit_breaker.hpp"

namespace kernwright {

CircuitBreaker::Permission CircuitBreaker::ask(double now) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::closed) return Permission::granted;
  if (state_ == State::trying || now < open_until_) return Permission::refused;
  state_ = State::trying;
  return Permission::trial;
}

bool CircuitBreaker::refuses(double now) const {
  const std::lock_guard lock(mutex_);
  return state_ == State::trying || (state_ == State::open && now < open_until_);
}

void CircuitBreaker::succeeded() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::open) return;  // asked before it opened
  failures_ = state_ == State::trying ? limits_.failures - 1 : 0;
  state_ = State::closed;
}

bool CircuitBreaker::failed(double now, double lost_seconds) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::open) return false;
  ++failures_;
  lost_seconds_ += lost_seconds;
  if (state_ == State::closed && failures_ < limits_.failures && lost_seconds_ < limits_.lost_seconds) return false;
  state_ = State::open;
  open_until_ = now + limits_.open_seconds;
  failures_ = 0;
  lost_seconds_ = 0;
  return true;
}

}  // namespace kernwright
