// Whether two byte streams that grow side by side are the same so far.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace kernwright::support {

class StreamComparison {
 public:
  void expect(std::span<const std::byte> bytes) { match(bytes, actual_, expected_); }
  void actual(std::span<const std::byte> bytes) { match(bytes, expected_, actual_); }

  /// As far as both streams have come.
  [[nodiscard]] bool equal() const noexcept { return equal_; }
  /// How many bytes came that are not expected yet, and the reverse.
  [[nodiscard]] std::size_t ahead() const noexcept { return actual_.size(); }
  [[nodiscard]] std::size_t missing() const noexcept { return expected_.size(); }

 private:
  /// Compares with what the other stream has more, and keeps what this one then has more.
  void match(std::span<const std::byte> bytes, std::vector<std::byte>& others, std::vector<std::byte>& own) {
    const std::size_t common = std::min(bytes.size(), others.size());
    const auto end = others.begin() + static_cast<std::ptrdiff_t>(common);
    equal_ = equal_ && std::equal(others.begin(), end, bytes.begin());
    others.erase(others.begin(), end);
    own.insert(own.end(), bytes.begin() + static_cast<std::ptrdiff_t>(common), bytes.end());
  }

  std::vector<std::byte> expected_, actual_;  ///< One of them is empty.
  bool equal_ = true;
};

}  // namespace kernwright::support
