#include "key/key.hpp"

namespace kernwright {
namespace {

void append_little_endian(std::string& bytes, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

std::uint64_t read_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

constexpr std::size_t kTagLengthBytes = 4;
constexpr std::size_t kLengthBytes = 8;

}  // namespace

FieldEncoder& FieldEncoder::field(std::string_view tag, std::string_view bytes) {
  append_little_endian(bytes_, tag.size(), kTagLengthBytes);
  bytes_ += tag;
  append_little_endian(bytes_, bytes.size(), kLengthBytes);
  bytes_ += bytes;
  return *this;
}

FieldEncoder& FieldEncoder::field(std::string_view tag, std::int64_t value) {
  std::string bytes;
  append_little_endian(bytes, static_cast<std::uint64_t>(value), kLengthBytes);
  return field(tag, bytes);
}

EntryKey FieldEncoder::hash() const {
  return digest(bytes_);
}

std::string_view FieldDecoder::take(std::size_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::string_view FieldDecoder::field(std::string_view tag) {
  // Both lengths are compared with what is left before anything is taken, so that none can wrap.
  const std::uint64_t tag_length = read_little_endian(take(kTagLengthBytes));
  if (tag_length != tag.size() || take(tag.size()) != tag) ok_ = false;
  const std::uint64_t length = read_little_endian(take(kLengthBytes));
  if (length > rest_.size()) ok_ = false;
  return take(static_cast<std::size_t>(length));
}

std::int64_t FieldDecoder::integer(std::string_view tag) {
  const std::string_view bytes = field(tag);
  if (bytes.size() != kLengthBytes) ok_ = false;
  return ok_ ? static_cast<std::int64_t>(read_little_endian(bytes)) : 0;
}

std::size_t FieldDecoder::count(std::string_view tag, std::size_t limit) {
  const std::int64_t value = integer(tag);
  if (value < 0 || static_cast<std::uint64_t>(value) > limit) ok_ = false;
  return ok_ ? static_cast<std::size_t>(value) : 0;
}

}  // namespace kernwright
