// Entry keys and digests: XXH3-128 over a field-tagged, length-prefixed encoding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "artifact.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

/// Appends (tag, length, bytes) fields, so that ("a","bc") and ("ab","c") differ: u32 length of the tag, the tag, u64 length, the bytes.
/// All integers little-endian; a value is eight bytes of two's complement.
class FieldEncoder {
 public:
  FieldEncoder& field(std::string_view tag, std::string_view bytes);
  FieldEncoder& field(std::string_view tag, std::int64_t value);
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] EntryKey hash() const;  ///< XXH3-128 of bytes(), canonical (big-endian) order.

 private:
  std::string bytes_;
};

/// Reads what FieldEncoder wrote, in the same order; every length is checked against what is left. After the first field that is not the
/// one asked for, ok() is false and every further answer is empty or 0.
class FieldDecoder {
 public:
  explicit FieldDecoder(std::string_view bytes) noexcept : rest_(bytes) {}
  std::string_view field(std::string_view tag);
  std::int64_t integer(std::string_view tag);
  /// An integer field in [0, limit]; more is not ok.
  std::size_t count(std::string_view tag, std::size_t limit);
  void refuse() noexcept { ok_ = false; }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] bool finished() const noexcept { return ok_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t size);
  std::string_view rest_;
  bool ok_ = true;
};

/// How a request's sources are written: in full for the key, as XXH3-128 digests for the comparison with a stored entry.
enum class SourceForm : std::uint8_t { content, digest };

/// The key fields of a request: everything but the compiler. Includes the sources' names, and their bytes or digests.
std::string encode_request(const BuildRequest& request, SourceForm sources = SourceForm::content);
std::string encode_compiler(const CompilerIdentity& compiler);
EntryKey entry_key(const BuildRequest& request, const CompilerIdentity& compiler);

/// What encode_request(…, SourceForm::digest) wrote; the sources' `content` is the digest's 16 bytes. malformed where it is anything else.
Result<BuildRequest> decode_request(std::string_view bytes);
Result<CompilerIdentity> decode_compiler(std::string_view bytes);

/// XXH3-128 in canonical (big-endian) order.
EntryKey digest(std::string_view bytes);

/// XXH3-128 of bytes, 32 hex digits.
std::string content_hash(std::span<const std::byte> bytes);
std::string content_hash(std::string_view text);

}  // namespace kernwright
