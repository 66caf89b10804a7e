// Where the remote cache's server is, read from a URL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright {

inline constexpr std::uint16_t kRedisPort = 6379;

struct RemoteAddress {
  std::string host;         ///< A name, or a numeric address without brackets; empty: a Unix socket.
  std::uint16_t port = 0;   ///< Of `host`.
  std::string socket_path;  ///< Absolute; empty: TCP.
  std::uint32_t database = 0;
  std::string user;      ///< Empty: the server's default user.
  std::string password;  ///< Empty: no authentication.

  /// For messages: the URL without user and password.
  [[nodiscard]] std::string text() const;
};

/// redis://[[user]:password@]host[:port][/database] or unix://[[user]:password@]/path[?db=database]; user, password and path may be
/// percent-encoded. invalid_argument says which part is wrong and what is legal, and quotes nothing but the scheme: where a URL is
/// mistyped, its password may stand in any part.
Result<RemoteAddress> parse_remote_url(std::string_view url);

}  // namespace kernwright
