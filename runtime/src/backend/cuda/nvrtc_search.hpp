// Where NVRTC is looked for, and what identifies the one found; nothing here loads a library or starts a process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/loader_path.hpp"
#include "kernwright/result.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright {

/// The places in the order they are tried. A value, so that tests can lay out their own.
struct NvrtcSearch {
  /// The release line that is tested. A library of another one is passed over, unless it was named by `given`.
  static constexpr int kMajor = 13;

  std::optional<std::filesystem::path> given;  ///< A library's path; nothing else is looked at.
  std::vector<std::filesystem::path> folders;  ///< RuntimeOptions::nvrtc_search_folders.
  LoaderPath loader;
  std::vector<std::filesystem::path> toolkits;         ///< Library folders of toolkits: $CUDA_HOME/lib64, …, /usr/local/cuda/lib64.
  std::vector<std::filesystem::path> python_folders;   ///< Folders with an `nvidia` folder: $PYTHONPATH's.
  std::vector<std::filesystem::path> python_prefixes;  ///< `lib` folders with python3*/site-packages or dist-packages in them.

  static NvrtcSearch from_process(const RuntimeOptions& options);
};

/// An NVRTC on disk.
struct NvrtcFile {
  std::filesystem::path library;  ///< The real file, links resolved.
  std::string found_by;           ///< "the loader's path", "/opt/x (nvrtc_search_folders)", …
  int major = 0;                  ///< From its SONAME.
};

/// compiler_unavailable lists every place that was looked in, what was wrong with what lay there, and how to install NVRTC.
Result<NvrtcFile> find_nvrtc(const NvrtcSearch& search);

/// The builtins library that belongs to an NVRTC. NVRTC asks the loader for "libnvrtc-builtins.so.<major>.<minor>" by name.
struct NvrtcBuiltins {
  std::filesystem::path library;  ///< Empty: there is none.
  int minor = -1;
};
/// The one beside the library where there is exactly one of its major: its name then tells NVRTC's minor version without opening it.
/// Nothing where there is none or several.
std::optional<NvrtcBuiltins> builtins_beside(const NvrtcFile& nvrtc);
/// For a minor version that NVRTC itself has told: beside it, else as the loader finds it; an empty path where there is none.
NvrtcBuiltins builtins_of(const NvrtcFile& nvrtc, int minor, const LoaderPath& loader);
std::string builtins_name(int major, int minor);

/// What tells one build of a library from another: its GNU build id, or, where it has none, the hash of its content.
Result<std::string> library_identity(const std::filesystem::path& library);

}  // namespace kernwright
