// A file that is read from its beginning, as often as it is asked for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "kernwright/result.hpp"
#include "platform/posix_calls.hpp"
#include "support/bundle/byte_stream.hpp"
#include "support/bundle/descriptor.hpp"

namespace kernwright::support {

/// One thread at a time.
class InputFile {
 public:
  /// not_found where there is no such file; io where it is no regular file or cannot be opened. Waits for nothing that stands in its place.
  static Result<InputFile> open(const std::filesystem::path& path, std::shared_ptr<PosixCalls> calls);
  /// The file's bytes from its first. This object must outlive the source, and only the newest source may be used.
  Result<ByteSource> from_start();

 private:
  InputFile(std::filesystem::path path, std::shared_ptr<PosixCalls> calls, Descriptor descriptor);
  Result<std::span<const std::byte>> next();

  std::filesystem::path path_;
  std::shared_ptr<PosixCalls> calls_;
  Descriptor descriptor_;
  std::vector<std::byte> buffer_;
};

}  // namespace kernwright::support
