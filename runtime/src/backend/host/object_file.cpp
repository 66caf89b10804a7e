#include "backend/host/object_file.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "platform/file_system.hpp"
#include "platform/write_all.hpp"

namespace kernwright::host {
namespace {

/// Null, or why the bytes are no whole shared object of this processor. The loader itself would map past a short file's end and die there;
/// that the bytes are the ones which were compiled is what the store's checksum says.
const char* elf_problem(std::span<const std::byte> binary) {
  Elf64_Ehdr header;
  if (binary.size() < sizeof(header)) return "shorter than an ELF header";
  std::memcpy(&header, binary.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return "not a 64-bit ELF file";
#if defined(__x86_64__)
  constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
  constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "name this processor's ELF machine"
#endif
  if (header.e_machine != kMachine) return "made for another processor";
  if (header.e_type != ET_DYN) return "not a shared object";
  const std::uint64_t table = std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > binary.size() || table > binary.size() - header.e_phoff)
    return "cut short";
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, binary.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > binary.size() || segment.p_filesz > binary.size() - segment.p_offset) return "cut short";
  }
  return nullptr;
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
  if (const char* const problem = elf_problem(binary)) {
    return fail(ErrorCode::load_failed, fmt::format("a kernel object of {} bytes is {}", binary.size(), problem));
  }
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
