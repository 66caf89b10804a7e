#include "backend/cuda/dynamic_library.hpp"

#include <dlfcn.h>
#include <link.h>

namespace kernwright {

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name, Lifetime lifetime) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (lifetime == Lifetime::resident ? RTLD_NODELETE : 0);
  if (void* handle = ::dlopen(name.c_str(), flags)) return DynamicLibrary(handle);
  const char* reason = ::dlerror();
  return fail(ErrorCode::not_found, reason != nullptr ? reason : name + ": the loader gives no reason");
}

DynamicLibrary DynamicLibrary::already_loaded(const std::string& name) {
  return DynamicLibrary(::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD));
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* DynamicLibrary::find(const char* symbol) const noexcept {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

std::filesystem::path DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return {};
  return map->l_name;
}

}  // namespace kernwright
