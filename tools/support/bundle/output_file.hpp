// A file of any size that appears under its name whole, or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"
#include "platform/posix_calls.hpp"
#include "support/bundle/descriptor.hpp"

namespace kernwright::support {

/// Written under a temporary name in the same folder, which is removed unless commit() succeeds. One thread at a time.
class OutputFile {
 public:
  /// What stands at `path` may be a regular file, or a link to one: then the file that the link names is replaced. Errors are `io`, with
  /// the path, the step and the system's reason; not_found where the folder does not exist; invalid_argument where a folder or device is
  /// there.
  static Result<OutputFile> create(const std::filesystem::path& path, std::shared_ptr<PosixCalls> calls);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Result<> write(std::span<const std::byte> bytes);
  /// Flushes and renames. Nothing may be written after it.
  Result<> commit();
  [[nodiscard]] Bytes size() const noexcept { return size_; }

 private:
  OutputFile(std::filesystem::path path, std::filesystem::path temporary, std::shared_ptr<PosixCalls> calls, Descriptor descriptor);

  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< Empty: nothing to remove.
  std::shared_ptr<PosixCalls> calls_;
  Descriptor descriptor_;
  Bytes size_;
};

}  // namespace kernwright::support
