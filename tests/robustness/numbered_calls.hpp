// Counts the store's system calls and makes the n-th of them, or all of one kind, go wrong.
#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <optional>

#include "fixtures/interposed_posix_calls.hpp"

namespace kernwright::robustness {

/// What goes wrong, and where. Without a number and a kind nothing does.
struct Fault {
  enum class Manner : std::uint8_t {
    refused,            ///< The call answers `code` and does nothing.
    done_all_the_same,  ///< It answers `code` after it was done.
    cut_short,          ///< A read or write moves half of what it could.
  };
  int number = INT_MAX;  ///< From 0, over all kinds.
  bool and_all_after = false;
  std::optional<tests::SystemCall> kind{};  ///< Every call of this kind in place of a number.
  int code = 0;
  Manner manner = Manner::refused;
};

/// For one thread. Data is not flushed for real: no test pulls a plug, and disks are slow.
class NumberedCalls final : public tests::InterposedPosixCalls {
 public:
  explicit NumberedCalls(const Fault& fault = {}) : fault_(fault) {}

  int before(const tests::CallDetails& details) override {
    ++calls_.at(static_cast<std::size_t>(details.call));
    const int number = count_++;
    meant_ = fault_.kind ? details.call == *fault_.kind : number == fault_.number || (fault_.and_all_after && number > fault_.number);
    if (meant_) ++met_;
    return meant_ && fault_.manner == Fault::Manner::refused ? fault_.code : 0;
  }
  int after(const tests::CallDetails&) override { return meant_ && fault_.manner == Fault::Manner::done_all_the_same ? fault_.code : 0; }
  std::size_t allowed(const tests::CallDetails& details) override {
    return meant_ && fault_.manner == Fault::Manner::cut_short ? std::max<std::size_t>(details.size / 2, 1) : details.size;
  }
  int fsync(int) override {
    const int code = before({tests::SystemCall::fsync});
    if (code == 0) return 0;
    errno = code;
    return -1;
  }

  [[nodiscard]] int count() const noexcept { return count_; }
  /// How many calls the fault met.
  [[nodiscard]] int met() const noexcept { return met_; }
  [[nodiscard]] int calls(tests::SystemCall call) const { return calls_.at(static_cast<std::size_t>(call)); }

 private:
  Fault fault_;
  int count_ = 0;
  int met_ = 0;
  bool meant_ = false;
  std::array<int, tests::kSystemCalls> calls_{};
};

}  // namespace kernwright::robustness
