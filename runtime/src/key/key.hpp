// Entry keys and digests: XXH3-128 over a field-tagged, length-prefixed encoding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "artifact.hpp"

namespace kernwright {

/// Appends (tag, length, bytes) fields, so that ("a","bc") and ("ab","c") differ. All integers little-endian.
class FieldEncoder {
 public:
  FieldEncoder& field(std::string_view tag, std::string_view bytes);
  FieldEncoder& field(std::string_view tag, std::int64_t value);
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] EntryKey hash() const;  ///< XXH3-128 of bytes(), canonical (big-endian) order.

 private:
  std::string bytes_;
};

/// The stored key fields of a request: everything but the compiler. Includes the sources' names and bytes.
std::string encode_request(const BuildRequest& request);
std::string encode_compiler(const CompilerIdentity& compiler);
EntryKey entry_key(const BuildRequest& request, const CompilerIdentity& compiler);

/// XXH3-128 of bytes, 32 hex digits.
std::string content_hash(std::span<const std::byte> bytes);
std::string content_hash(std::string_view text);

}  // namespace kernwright
