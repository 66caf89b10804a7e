#include "backend/host/named_barrier.hpp"

#include <cstring>

namespace kernwright::host {

NamedBarrier::Outcome NamedBarrier::arrive(unsigned thread, unsigned threads, bool one_place, kw::simt::Location where) {
  if (waiting_.empty()) {
    expected_ = threads;
    place_ = where;
  } else if (expected_ != threads) {
    return Outcome::other_count;
  } else if (one_place && (place_.line != where.line || (place_.file != where.file && std::strcmp(place_.file, where.file) != 0))) {
    return Outcome::other_place;
  }
  waiting_.push_back(thread);
  return waiting_.size() == expected_ ? Outcome::complete : Outcome::wait;
}

}  // namespace kernwright::host
