#include "remote/redis_reply.hpp"

#include <doctest/doctest.h>

#include "platform/file_system.hpp"
#include "unit/remote/remote_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

using State = RedisReplyReader::State;
using Kind = RedisReply::Kind;

/// Feeds pieces of the given size until the reader has enough.
State fed(RedisReplyReader& reader, std::string_view text, std::size_t piece) {
  State state = State::incomplete;
  while (!text.empty() && state == State::incomplete) {
    state = reader.take(as_bytes(text.substr(0, piece)));
    text.remove_prefix(std::min(piece, text.size()));
  }
  return state;
}

}  // namespace

TEST_CASE("remote: each kind of answer is read, in pieces of any size") {
  struct Case {
    std::string bytes;
    Kind kind;
    std::string text;
  };
  const std::string binary("\0\r\n$5\r\n\xff\0", 9);
  for (const auto& [bytes, kind, text] :
       {Case{"$5\r\nhello\r\n", Kind::value, "hello"}, Case{"$0\r\n\r\n", Kind::value, ""},
        Case{"$9\r\n" + binary + "\r\n", Kind::value, binary}, Case{"$-1\r\n", Kind::nil, ""}, Case{"+OK\r\n", Kind::status, "OK"},
        Case{"-OOM no room\r\n", Kind::error, "OOM no room"}, Case{":42\r\n", Kind::integer, ""},
        Case{"$3000\r\n" + std::string(3000, 'v') + "\r\n", Kind::value, std::string(3000, 'v')}}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{4096}}) {
      CAPTURE(bytes.substr(0, 20));
      CAPTURE(piece);
      RedisReplyReader reader(3000);
      REQUIRE(fed(reader, bytes, piece) == State::complete);
      CHECK(reader.reply().kind == kind);
      CHECK(reader.reply().text == text);
    }
  }
}

TEST_CASE("remote: a value above the limit is refused from its announcement") {
  for (const char* size : {"3001", "16777217", "4294967297", "9223372036854775807"}) {
    CAPTURE(size);
    RedisReplyReader reader(3000);
    CHECK(fed(reader, std::string("$") + size + "\r\n", 100) == State::too_large);
    CHECK(holds(reader.problem(), size));
  }
  RedisReplyReader reader(3000);
  CHECK(fed(reader, "$3000\r\n" + std::string(2999, 'v'), 500) == State::incomplete);
}

TEST_CASE("remote: what is no single answer is refused") {
  for (const std::string& bytes : {std::string("*0\r\n"),
                                   std::string("*1\r\n$1\r\nx\r\n"),
                                   std::string("*2147483647\r\n"),
                                   std::string("*-1\r\n"),
                                   std::string("HTTP/1.1 400 Bad Request\r\n"),
                                   std::string("\0\0\0\0", 4),
                                   std::string("$\r\n"),
                                   std::string("$x\r\n"),
                                   std::string("$-2\r\n"),
                                   std::string("$1 \r\n"),
                                   std::string("$99999999999999999999\r\n"),
                                   "$" + std::string(40, '1'),
                                   "$" + std::string(24, '0'),
                                   "+" + std::string(5000, 'a'),
                                   "-" + std::string(5000, 'a'),
                                   std::string(":12x\r\n"),
                                   std::string("+OK\r\n+OK\r\n"),
                                   std::string("$1\r\nx\r\n$1\r\ny\r\n"),
                                   std::string("$-1\r\n$"),
                                   std::string("$1\r\nx\r\n\r"),
                                   std::string("%1\r\n+a\r\n+b\r\n"),
                                   std::string("(123\r\n"),
                                   std::string("_\r\n"),
                                   std::string("#t\r\n")}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{10'000}}) {
      CAPTURE(bytes.substr(0, 30));
      CAPTURE(piece);
      // One byte at a time a reader may be done before it can see that more comes; then what comes is refused by the connection instead.
      RedisReplyReader reader(3000);
      const State state = fed(reader, bytes, piece);
      if (piece == 1 && state == State::complete) continue;
      CHECK(state == State::broken);
      CHECK_FALSE(reader.problem().empty());
    }
  }
}
