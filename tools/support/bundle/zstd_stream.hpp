// One zstd frame, written and read piece by piece with bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"
#include "support/bundle/byte_stream.hpp"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kernwright::support {

/// The same bytes, written in the same pieces, give the same frame with one version of zstd.
class ZstdWriter {
 public:
  explicit ZstdWriter(ByteSink sink);
  Result<> write(std::span<const std::byte> bytes);
  Result<> finish();

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
  };
  Result<> compress(std::span<const std::byte> bytes, bool last);

  std::unique_ptr<ZSTD_CCtx_s, Free> context_;  ///< Null: out of memory.
  ByteSink sink_;
  std::vector<std::byte> buffer_;
};

/// Reads exactly one frame, which must be all that the source holds.
class ZstdReader {
 public:
  /// More than `limit` bytes of content are refused.
  ZstdReader(ByteSource source, Bytes limit);
  /// As a ByteSource. malformed where the source is no such frame: the message says what it is instead where that can be told.
  Result<std::span<const std::byte>> next();

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  Result<> fill();
  Result<> check_magic();
  Result<> check_end();

  std::unique_ptr<ZSTD_DCtx_s, Free> context_;  ///< Null: out of memory.
  ByteSource source_;
  Bytes limit_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> first_;  ///< The source's first bytes.
  std::span<const std::byte> input_;
  std::uint64_t total_ = 0;
  bool begun_ = false, ended_ = false;
  bool held_back_ = false;  ///< The decoder may have more content without more input.
};

}  // namespace kernwright::support
