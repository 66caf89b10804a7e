#include "core/byte_size.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace kernwright {

Result<Bytes> parse_byte_size(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::size_t unit = rest.empty() ? 0 : kUnits.find(rest.front()) + 1;  // npos + 1 is 0
  const bool legal = problem == std::errc{} && (rest.empty() || (rest.size() == 1 && unit > 0));
  const std::size_t shift = unit * 10;
  if (!legal || value > std::numeric_limits<std::uint64_t>::max() >> shift) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no size; legal is a whole number of bytes, or one with K, M, G or T behind it", text.substr(0, 64)));
  }
  return Bytes{value << shift};
}

}  // namespace kernwright
