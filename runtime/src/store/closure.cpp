#include "store/closure.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include "key/key.hpp"

namespace kernwright {
namespace {

constexpr int kLevel = 9;  // a closure of some 50 KB packs in about a millisecond, beside a compile of 30 or more
constexpr std::size_t kMostSources = 1U << 16;

}  // namespace

std::string write_closure(const std::vector<SourceFile>& sources) {
  FieldEncoder fields;
  fields.field("sources", static_cast<std::int64_t>(sources.size()));
  for (const SourceFile& source : sources) fields.field("name", source.name).field("content", source.content);
  return fields.bytes();
}

Result<std::vector<SourceFile>> read_closure(std::string_view bytes) {
  std::vector<SourceFile> sources;
  FieldDecoder fields(bytes);
  const std::size_t count = fields.count("sources", kMostSources);
  for (std::size_t i = 0; i < count && fields.ok(); ++i) {
    std::string name(fields.field("name"));
    sources.push_back({std::move(name), std::string(fields.field("content"))});
  }
  if (!fields.finished()) return fail(ErrorCode::malformed, "its sources are not in the form of its format version");
  return sources;
}

Result<std::string> compress(std::string_view bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0)
    return fail(ErrorCode::internal, fmt::format("zstd cannot compress {} bytes: {}", bytes.size(), ZSTD_getErrorName(size)));
  frame.resize(size);
  return frame;
}

Result<std::string> decompress(std::string_view frame, std::size_t size) {
  std::string bytes(size, '\0');
  const std::size_t filled = ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(filled) != 0)
    return fail(ErrorCode::malformed, fmt::format("its sources do not decompress: {}", ZSTD_getErrorName(filled)));
  if (filled != size) return fail(ErrorCode::malformed, fmt::format("its sources decompress to {} bytes, {} were promised", filled, size));
  return bytes;
}

}  // namespace kernwright
