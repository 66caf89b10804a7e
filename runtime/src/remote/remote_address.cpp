#include "remote/remote_address.hpp"

#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace kernwright {
namespace {

constexpr std::string_view kLegal =
    "legal are redis://[[user]:password@]host[:port][/database] and unix://[[user]:password@]/path[?db=database]";

tl::unexpected<Error> refuse(std::string_view what) {
  return fail(ErrorCode::invalid_argument, fmt::format("the remote cache's URL {}; {}", what, kLegal));
}

/// The whole of `text` as a decimal number up to `largest`.
template <class Number>
std::optional<Number> number(std::string_view text, Number largest) {
  Number value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value > largest) return std::nullopt;
  return value;
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

/// Inside brackets: an IPv6 address, with its zone where it has one.
bool is_bracketed_character(char c) {
  return is_host_character(c) || c == ':' || c == '%';
}

/// Percent-decoded; nullopt where an escape is not two hex digits, or stands for NUL.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || problem != std::errc{} || end != digits.data() + 2 || value == 0) return std::nullopt;
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

Result<> read_credentials(std::string_view text, RemoteAddress& address) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return refuse("names a user without a password");
  auto user = decoded(text.substr(0, colon));
  auto password = decoded(text.substr(colon + 1));
  if (!user || !password) return refuse("has a '%' in its user or password that is not followed by two hex digits");
  if (password->empty()) return refuse("has an empty password");
  address.user = std::move(*user);
  address.password = std::move(*password);
  return {};
}

Result<> read_database(std::string_view text, RemoteAddress& address) {
  const auto database = number<std::uint32_t>(text, std::numeric_limits<std::int32_t>::max());
  if (!database) return refuse("has a database that is not a whole number");
  address.database = *database;
  return {};
}

/// host[:port] with a numeric IPv6 address in brackets.
Result<> read_host(std::string_view text, RemoteAddress& address) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return refuse("has a '[' without its ']'");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    has_port = !port.empty();
    if (has_port && !port.starts_with(':')) return refuse("goes on after the ']' with something that is no port");
    if (has_port) port.remove_prefix(1);
    if (!std::all_of(address.host.begin(), address.host.end(), is_bracketed_character))
      return refuse("has no IPv6 address in its brackets");
  } else {
    const std::size_t colon = text.find(':');
    has_port = colon != std::string_view::npos;
    address.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    if (!std::all_of(address.host.begin(), address.host.end(), is_host_character)) {
      return refuse(
          "has characters in its host that no host name has (a password's '@', ':', '/', '?', '#' and '%' are written %40, %3A, %2F, %3F, "
          "%23 and %25)");
    }
  }
  if (address.host.empty()) return refuse("names no host");
  address.port = kRedisPort;
  if (!has_port) return {};
  const auto value = number<std::uint32_t>(port, std::numeric_limits<std::uint16_t>::max());
  if (!value || *value == 0) return refuse("has a port that is not a number from 1 to 65535");
  address.port = static_cast<std::uint16_t>(*value);
  return {};
}

Result<> read_tcp(std::string_view authority, std::string_view path, std::string_view query, RemoteAddress& address) {
  if (!query.empty()) return refuse("has a '?' or '#' part, which redis:// does not take");
  if (auto host = read_host(authority, address); !host) return host;
  if (path.size() <= 1) return {};
  return read_database(path.substr(1), address);
}

Result<> read_unix(std::string_view authority, std::string_view path, std::string_view query, RemoteAddress& address) {
  if (!authority.empty()) return refuse("has a socket path that is not absolute: three slashes follow unix:");
  auto plain = decoded(path);
  if (!plain) return refuse("has a '%' in its path that is not followed by two hex digits");
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (plain->size() <= 1 || plain->size() > kLongest) {
    return refuse(fmt::format("has a socket path of {} bytes; the system takes 2 to {}", plain->size(), kLongest));
  }
  address.socket_path = std::move(*plain);
  if (query.empty()) return {};
  if (!query.starts_with("?db=")) return refuse("has a '?' or '#' part other than ?db=database");
  return read_database(query.substr(4), address);
}

/// Whether quoting it can give away nothing.
bool is_scheme(std::string_view text) {
  return !text.empty() && text.size() <= 12 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '+' || c == '.' || c == '-'; });
}

}  // namespace

std::string RemoteAddress::text() const {
  const std::string part = database == 0 ? "" : std::to_string(database);
  if (!socket_path.empty()) return fmt::format("unix://{}{}{}", socket_path, part.empty() ? "" : "?db=", part);
  const bool brackets = host.find(':') != std::string::npos;
  return fmt::format("redis://{}{}{}:{}{}{}", brackets ? "[" : "", host, brackets ? "]" : "", port, part.empty() ? "" : "/", part);
}

Result<RemoteAddress> parse_remote_url(std::string_view url) {
  const std::size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return refuse("has no scheme");
  const std::string_view scheme = url.substr(0, scheme_end);
  const bool tcp = scheme == "redis";
  if (scheme == "rediss") {
    return refuse("asks for TLS (rediss://), which is not supported: use a private network, or a tunnel and its local end");
  }
  if (!tcp && scheme != "unix") return refuse(is_scheme(scheme) ? fmt::format("has the scheme '{}'", scheme) : "has an unknown scheme");

  std::string_view rest = url.substr(scheme_end + 3);
  const std::size_t query_start = std::min(rest.find_first_of("?#"), rest.size());
  const std::string_view query = rest.substr(query_start);
  rest = rest.substr(0, query_start);
  const std::size_t path_start = std::min(rest.find('/'), rest.size());
  const std::string_view path = rest.substr(path_start);
  std::string_view authority = rest.substr(0, path_start);

  RemoteAddress address;
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    if (auto read = read_credentials(authority.substr(0, at), address); !read) return fail(std::move(read.error()));
    authority.remove_prefix(at + 1);
  }
  auto read = tcp ? read_tcp(authority, path, query, address) : read_unix(authority, path, query, address);
  if (!read) return fail(std::move(read.error()));
  return address;
}

}  // namespace kernwright
