// Where the dynamic loader would find a library, answered without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace kernwright {

/// The loader's search path for libraries opened by this code (ld.so(8)): RPATH, LD_LIBRARY_PATH as it was at program start and RUNPATH;
/// then the loader's cache; then its built-in folders.
struct LoaderPath {
  std::vector<std::filesystem::path> before_cache;
  std::filesystem::path cache;
  std::vector<std::filesystem::path> after_cache;
  bool loaded_libraries = false;  ///< A library of that name which the process has loaded already comes first.

  static LoaderPath of_this_process();

  /// The file that opening `soname` would map; nothing where there is none.
  [[nodiscard]] std::optional<std::filesystem::path> find(std::string_view soname) const;
};

/// The path that an ld.so.cache (glibc's "1.1" format) gives for a soname on this architecture; nothing where the file is absent,
/// another format, damaged, or does not list it. Names are read from `bytes` only.
std::optional<std::filesystem::path> find_in_loader_cache(const std::filesystem::path& cache, std::string_view soname);

}  // namespace kernwright
