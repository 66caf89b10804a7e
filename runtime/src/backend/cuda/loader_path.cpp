#include "backend/cuda/loader_path.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "backend/cuda/dynamic_library.hpp"
#include "backend/cuda/mapped_file.hpp"
#include "elf/elf_file.hpp"

namespace kernwright {

namespace {

// glibc's dl-cache.h: the header and entries of cache format 1.1. Offsets count from the header.
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
struct CacheHeader {
  char magic[20];
  std::uint32_t libraries, string_bytes;
  std::uint8_t flags, padding[3];
  std::uint32_t extension_offset, unused[3];
};
static_assert(sizeof(CacheHeader) == 48);
struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name, path, os_version;
  std::uint64_t hardware;
};
static_assert(sizeof(CacheEntry) == 24);
#if defined(__x86_64__)
constexpr std::int32_t kThisArchitecture = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
#elif defined(__aarch64__)
constexpr std::int32_t kThisArchitecture = 0x0a03;  // FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6
#else
constexpr std::int32_t kThisArchitecture = -1;
#endif

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// The loaded object that this code is part of: the program, or the shared library that the engine linked us into.
void* own_handle() {
  Dl_info info{};
  void* extra = nullptr;
  // Any address inside this object will do.
  if (::dladdr1(reinterpret_cast<const void*>(&own_handle), &info, &extra, RTLD_DL_LINKMAP) == 0 || extra == nullptr) return nullptr;
  const auto* map = static_cast<const link_map*>(extra);
  const bool program = map->l_name == nullptr || *map->l_name == '\0';
  return ::dlopen(program ? nullptr : map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

LoaderPath LoaderPath::of_this_process() {
  LoaderPath path;
  path.cache = "/etc/ld.so.cache";
  path.loaded_libraries = true;
  void* handle = own_handle();
  if (handle == nullptr) return path;
  Dl_serinfo size{};
  if (::dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0) {
    const std::unique_ptr<char[]> storage(new char[size.dls_size + alignof(Dl_serinfo)]);
    auto* info = new (storage.get()) Dl_serinfo;
    info->dls_size = size.dls_size;
    info->dls_cnt = size.dls_cnt;
    if (::dlinfo(handle, RTLD_DI_SERINFOSIZE, info) == 0 && ::dlinfo(handle, RTLD_DI_SERINFO, info) == 0) {
      const auto* folders = &info->dls_serpath[0];
      for (unsigned i = 0; i < info->dls_cnt; ++i) {
        if (folders[i].dls_name == nullptr || *folders[i].dls_name == '\0') continue;
        ((folders[i].dls_flags & LA_SER_DEFAULT) != 0 ? path.after_cache : path.before_cache).emplace_back(folders[i].dls_name);
      }
    }
  }
  ::dlclose(handle);
  return path;
}

std::optional<std::filesystem::path> LoaderPath::find(std::string_view soname) const {
  const std::string name(soname);
  if (loaded_libraries) {
    if (const DynamicLibrary loaded = DynamicLibrary::already_loaded(name)) {
      if (auto path = loaded.path(); is_file(path)) return path;
    }
  }
  for (const auto& folder : before_cache) {
    if (is_file(folder / name)) return folder / name;
  }
  if (auto cached = find_in_loader_cache(cache, soname)) {
    if (is_file(*cached)) return cached;
  }
  for (const auto& folder : after_cache) {
    if (is_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> find_in_loader_cache(const std::filesystem::path& cache, std::string_view soname) {
  const auto file = MappedFile::open(cache);
  if (!file) return std::nullopt;
  // glibc before 2.32 may write an older table first; the newer one follows it.
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const std::size_t start = text.find(kCacheMagic);
  if (start == std::string_view::npos) return std::nullopt;
  const auto bytes = file->bytes().subspan(start);
  const auto header = elf::load<CacheHeader>(bytes, 0);
  if (!header) return std::nullopt;
  for (std::uint64_t i = 0; i < header->libraries; ++i) {
    const auto entry = elf::load<CacheEntry>(bytes, sizeof(CacheHeader) + i * sizeof(CacheEntry));
    if (!entry) return std::nullopt;
    if (entry->flags != kThisArchitecture || entry->hardware != 0) continue;
    if (elf::string_at(bytes, entry->name) != soname) continue;
    if (const auto path = elf::string_at(bytes, entry->path)) return std::filesystem::path(*path);
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace kernwright
