#include "remote/redis_reply.hpp"

#include <fmt/format.h>
#include <hiredis/read.h>

#include <algorithm>
#include <charconv>
#include <exception>

#include "platform/file_system.hpp"

namespace kernwright {
namespace {

// '$', the digits of a 64-bit number, CR LF.
constexpr std::size_t kLongestAnnouncement = 24;
constexpr std::size_t kLongestLine = 4096;

RedisReply& reply_of(const redisReadTask* task) {
  return *static_cast<RedisReply*>(task->privdata);
}

/// Called from C: nothing may be thrown. Null is hiredis's word for out of memory.
void* keep_text(const redisReadTask* task, char* text, std::size_t size) noexcept {
  RedisReply& reply = reply_of(task);
  try {
    reply.text.assign(text, size);
  } catch (const std::exception&) {
    return nullptr;
  }
  switch (task->type) {
    case REDIS_REPLY_STRING: reply.kind = RedisReply::Kind::value; break;
    case REDIS_REPLY_STATUS: reply.kind = RedisReply::Kind::status; break;
    case REDIS_REPLY_ERROR: reply.kind = RedisReply::Kind::error; break;
    default: return nullptr;
  }
  return &reply;
}

/// The answer is ours, so hiredis has nothing to free, and no array is ever made: its length would be the server's to choose.
redisReplyObjectFunctions object_functions() {
  redisReplyObjectFunctions functions{};
  functions.createString = keep_text;
  functions.createArray = [](const redisReadTask*, auto) -> void* { return nullptr; };  // hiredis 1 takes a size_t where 0.14 takes an int
  functions.createInteger = [](const redisReadTask* task, long long) -> void* {
    reply_of(task).kind = RedisReply::Kind::integer;
    return &reply_of(task);
  };
  functions.createNil = [](const redisReadTask* task) -> void* {
    reply_of(task).kind = RedisReply::Kind::nil;
    return &reply_of(task);
  };
  functions.freeObject = [](void*) {};
  return functions;
}

}  // namespace

void RedisReplyReader::Free::operator()(redisReader* reader) const noexcept {
  redisReaderFree(reader);
}

RedisReplyReader::RedisReplyReader(std::size_t largest_value) : largest_value_(largest_value), reply_(std::make_unique<RedisReply>()) {
  static const redisReplyObjectFunctions functions = object_functions();
  // hiredis only reads it, though its declaration does not say so.
  reader_.reset(redisReaderCreateWithFunctions(const_cast<redisReplyObjectFunctions*>(&functions)));
  if (reader_) reader_->privdata = reply_.get();
}

RedisReplyReader::State RedisReplyReader::refuse(State state, std::string problem) {
  problem_ = std::move(problem);
  return state;
}

RedisReplyReader::State RedisReplyReader::take(std::span<const std::byte> bytes) {
  if (!reader_) return refuse(State::broken, "no memory to read the answer");
  if (bytes.empty()) return State::incomplete;
  taken_ += bytes.size();
  if (beginning_.size() < kLongestAnnouncement) {
    beginning_ += as_text(bytes.first(std::min(bytes.size(), kLongestAnnouncement - beginning_.size())));
  }
  if (const State beginning = check_beginning(); beginning != State::incomplete) return beginning;
  const std::string_view text = as_text(bytes);
  if (redisReaderFeed(reader_.get(), text.data(), text.size()) != REDIS_OK) return refuse(State::broken, "no memory to read the answer");
  return parse();
}

RedisReplyReader::State RedisReplyReader::check_beginning() {
  switch (beginning_.front()) {
    case '$': break;
    case '+':
    case '-':
    case ':':
      return taken_ <= kLongestLine ? State::incomplete : refuse(State::broken, fmt::format("a line of more than {} bytes", kLongestLine));
    default: return refuse(State::broken, "an answer that is no value, number, status or error");
  }
  const std::size_t end = beginning_.find("\r\n");
  if (end == std::string::npos) {
    return beginning_.size() < kLongestAnnouncement ? State::incomplete : refuse(State::broken, "a value without a length");
  }
  std::int64_t size = 0;
  const char* const last = beginning_.data() + end;
  const auto [stop, problem] = std::from_chars(beginning_.data() + 1, last, size);
  if (problem != std::errc{} || stop != last || size < -1) return refuse(State::broken, "a value without a length");
  if (size > 0 && static_cast<std::uint64_t>(size) > largest_value_) {
    return refuse(State::too_large, fmt::format("a value of {} bytes; at most {} are read", size, largest_value_));
  }
  // One answer was asked for: what comes behind it is nobody's.
  const std::size_t whole = end + 2 + (size < 0 ? 0 : static_cast<std::size_t>(size) + 2);
  return taken_ <= whole ? State::incomplete : refuse(State::broken, "more bytes than one answer");
}

RedisReplyReader::State RedisReplyReader::parse() {
  void* object = nullptr;
  if (redisReaderGetReply(reader_.get(), &object) != REDIS_OK) {
    return refuse(State::broken, fmt::format("not Redis's protocol ({})", static_cast<const char*>(reader_->errstr)));
  }
  if (object == nullptr) return State::incomplete;
  if (reader_->pos != reader_->len) return refuse(State::broken, "more bytes than one answer");
  return State::complete;
}

}  // namespace kernwright
