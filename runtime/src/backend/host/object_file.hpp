// A compiled kernel's shared object, loaded from memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/host/simt/abi.hpp"
#include "backend/host/temporary_folder.hpp"
#include "kernwright/result.hpp"
#include "platform/file_descriptor.hpp"

namespace kernwright::host {

/// Unloaded on destruction. Movable.
class ObjectFile {
 public:
  /// From an anonymous file in memory, or a private temporary one where there is none. load_failed with the loader's words.
  static Result<ObjectFile> load(std::span<const std::byte> binary);

  [[nodiscard]] const kw::simt::ObjectInterface& interface() const noexcept { return *interface_; }

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };
  ObjectFile() = default;

  FileDescriptor file_;  // kept open: the loader knows the object by a name that has this number in it
  std::optional<TemporaryFolder> folder_;
  std::unique_ptr<void, Close> handle_;
  const kw::simt::ObjectInterface* interface_ = nullptr;
};

}  // namespace kernwright::host
