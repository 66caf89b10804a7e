#include "remote/remote_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/entry_format.hpp"

namespace kernwright {
namespace {

constexpr std::size_t kLongestNameSpace = 64;
constexpr std::int64_t kLongestTimeToLive = 10LL * 366 * 86'400;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' || c == ':';
}

bool is_name_space(const std::string& text) {
  return !text.empty() && text.size() <= kLongestNameSpace && std::all_of(text.begin(), text.end(), is_name_character);
}

}  // namespace

Result<RemoteAddress> check_remote_options(const RemoteOptions& options) {
  auto address = parse_remote_url(options.url);
  if (!address) return address;
  if (!is_name_space(options.name_space)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the remote cache's name space is '{}'; legal are 1 to {} of letters, digits, '.', '_', '-' and ':'",
                            options.name_space.substr(0, kLongestNameSpace), kLongestNameSpace));
  }
  if (options.key_file.empty()) {
    return fail(ErrorCode::invalid_argument,
                "the remote cache needs a key file: without the fleet's secret nothing that comes from a server is loaded. Make one with "
                "`(umask 077; openssl rand -hex 32 > FILE)`, give every machine the same, and name it in KERNWRIGHT_REMOTE_KEY_FILE");
  }
  if (options.largest_entry.count == 0 || options.largest_entry > kLargestEntry) {
    return fail(ErrorCode::invalid_argument, fmt::format("the remote cache's largest entry is {} bytes; legal are 1 to {}",
                                                         options.largest_entry.count, kLargestEntry.count));
  }
  if (options.time_to_live_seconds < 0 || options.time_to_live_seconds > kLongestTimeToLive) {
    return fail(ErrorCode::invalid_argument, fmt::format("the remote cache's time to live is {} seconds; legal are 0 (no limit) to {}",
                                                         options.time_to_live_seconds, kLongestTimeToLive));
  }
  return address;
}

}  // namespace kernwright
