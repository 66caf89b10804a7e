#include "backend/host/object_file.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "platform/file_system.hpp"

namespace kernwright::host {
namespace {

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

std::string last_error() {
  const char* const words = dlerror();
  return words == nullptr ? "no reason given" : words;
}

std::string name_of(const FileDescriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

}  // namespace

void ObjectFile::Close::operator()(void* handle) const noexcept {
  dlclose(handle);
}

Result<ObjectFile> ObjectFile::load(std::span<const std::byte> binary) {
  ObjectFile object;
  std::string why;
  FileDescriptor file(memfd_create("kernwright", MFD_CLOEXEC));
  if (file && write_all(file.get(), binary)) {
    // The loader answers a name that it knows with the object it knows. One that would not unload could have left the number of a closed
    // file behind: such numbers are stepped over.
    while (void* const stale = dlopen(name_of(file).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      dlclose(stale);
      FileDescriptor higher(fcntl(file.get(), F_DUPFD_CLOEXEC, file.get() + 1));
      if (!higher) break;
      file = std::move(higher);
    }
    object.handle_.reset(dlopen(name_of(file).c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!object.handle_) why = last_error();
    object.file_ = std::move(file);
  } else {
    why = fmt::format("no file in memory: {}", std::strerror(errno));
  }
  if (!object.handle_) {  // some systems forbid running what lies in memory
    auto folder = TemporaryFolder::create();
    if (!folder) return fail(std::move(folder.error()));
    if (auto written = folder->write("kernel.so", as_text(binary)); !written) return fail(std::move(written.error()));
    object.handle_.reset(dlopen((folder->path() / "kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!object.handle_)
      return fail(ErrorCode::load_failed, fmt::format("the loader refused the kernel object: {}; before: {}", last_error(), why));
    object.folder_.emplace(std::move(*folder));
  }
  object.interface_ = static_cast<const kw::simt::ObjectInterface*>(dlsym(object.handle_.get(), "kw_simt_object"));
  if (object.interface_ == nullptr)
    return fail(ErrorCode::load_failed, fmt::format("not a kernel object of the host backend: {}", last_error()));
  if (object.interface_->abi_version != kw::simt::kAbiVersion) {
    return fail(ErrorCode::load_failed, fmt::format("a kernel object of interface version {}; this library's is {}",
                                                    object.interface_->abi_version, kw::simt::kAbiVersion));
  }
  return object;
}

}  // namespace kernwright::host
