#include "backend/cuda/nvrtc_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "backend/cuda/mapped_file.hpp"
#include "elf/elf_reader.hpp"
#include "key/key.hpp"

namespace kernwright {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

std::vector<fs::path> split_path_list(const std::string& list) {
  std::vector<fs::path> parts;
  std::size_t start = 0;
  while (start <= list.size()) {
    const std::size_t end = std::min(list.find(':', start), list.size());
    // An empty part means the working folder to Python; a library is not taken from there.
    if (end > start) parts.emplace_back(list.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// Folder entries by name, sorted, so that the answer does not depend on the file system's order.
std::vector<fs::path> list(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end; !error && it != end;
       it.increment(error))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || text.empty() || value < 0) return std::nullopt;
  return value;
}

constexpr std::string_view kLibraryPrefix = "libnvrtc.so.";

// The major version in an NVRTC's SONAME, or why the file is none.
Result<int> major_of(const fs::path& library) {
  const auto file = MappedFile::open(library);
  if (!file) return fail(Error(file.error()));
  const auto soname = elf::soname(file->bytes());
  if (!soname) return fail(ErrorCode::malformed, fmt::format("{}: {}", library.string(), soname.error().message));
  if (soname->starts_with(kLibraryPrefix)) {
    const std::string_view version = std::string_view(*soname).substr(kLibraryPrefix.size());
    if (const auto major = number(version.substr(0, version.find('.')))) return *major;
  }
  return fail(ErrorCode::malformed, fmt::format("{}: its SONAME is '{}', not one of NVRTC's", library.string(), *soname));
}

class Finder {
 public:
  explicit Finder(const NvrtcSearch& search) : search_(search) {}

  Result<NvrtcFile> run() {
    if (search_.given) return given(*search_.given);
    for (const auto& folder : search_.folders) {
      if (auto found = in_folder(folder, "nvrtc_search_folders")) return std::move(*found);
    }
    if (auto found = by_loader()) return std::move(*found);
    for (const auto& folder : search_.toolkits) {
      if (auto found = in_folder(folder, "toolkit")) return std::move(*found);
    }
    for (const auto& folder : search_.python_folders) {
      if (auto found = in_python_folder(folder)) return std::move(*found);
    }
    for (const auto& prefix : search_.python_prefixes) {
      for (const auto& python : list(prefix)) {
        if (!python.filename().string().starts_with("python3")) continue;
        for (const char* packages : {"site-packages", "dist-packages"}) {
          if (auto found = in_python_folder(python / packages)) return std::move(*found);
        }
      }
      places_ += fmt::format("\n  {}/python3*/{{site,dist}}-packages/nvidia/*/lib", prefix.string());
    }
    return fail(
        ErrorCode::compiler_unavailable,
        fmt::format("no NVRTC {} was found. Looked for libnvrtc.so.{} in:{}\nInstall the CUDA toolkit {} or pip's nvidia-cuda-nvrtc "
                    "(>= {}), or name the library in KERNWRIGHT_NVRTC",
                    NvrtcSearch::kMajor, NvrtcSearch::kMajor, places_, NvrtcSearch::kMajor, NvrtcSearch::kMajor));
  }

 private:
  Result<NvrtcFile> given(const fs::path& path) const {
    std::error_code error;
    // A bare name is the loader's to resolve, as it would be for dlopen.
    fs::path library = path;
    if (path.native().find('/') == std::string::npos) {
      if (const auto resolved = search_.loader.find(path.native())) library = *resolved;
    }
    library = fs::canonical(library, error);
    if (error) {
      return fail(ErrorCode::compiler_unavailable,
                  fmt::format("NVRTC was named as {} (by the options or KERNWRIGHT_NVRTC), which cannot be opened: {}. Name an existing "
                              "libnvrtc.so, or name none and it is searched for",
                              path.string(), error.message()));
    }
    const auto major = major_of(library);
    if (!major) {
      return fail(ErrorCode::compiler_unavailable,
                  fmt::format("NVRTC was named as {} (by the options or KERNWRIGHT_NVRTC), which is not one: {}", path.string(),
                              major.error().message));
    }
    return NvrtcFile{library, fmt::format("{} (named by the options or KERNWRIGHT_NVRTC)", path.string()), *major};
  }

  // The library under `path`, where it is an NVRTC of the tested major; what else lies there is noted for the error.
  std::optional<NvrtcFile> accept(const fs::path& path, const std::string& found_by, std::string& problem) {
    std::error_code error;
    const fs::path library = fs::canonical(path, error);
    if (error) return std::nullopt;
    const auto major = major_of(library);
    if (!major) {
      problem = major.error().message;
      return std::nullopt;
    }
    if (*major != NvrtcSearch::kMajor) {
      problem =
          fmt::format("{} is NVRTC {}, and {} is what this library is tested with; name it in KERNWRIGHT_NVRTC to use it all the same",
                      library.string(), *major, NvrtcSearch::kMajor);
      return std::nullopt;
    }
    return NvrtcFile{library, found_by, *major};
  }

  std::optional<NvrtcFile> in_folder(const fs::path& folder, std::string_view kind) {
    std::string problem;
    for (const std::string& name : {fmt::format("{}{}", kLibraryPrefix, NvrtcSearch::kMajor), std::string("libnvrtc.so")}) {
      if (auto found = accept(folder / name, fmt::format("{} ({})", folder.string(), kind), problem)) return found;
    }
    note(fmt::format("{} ({})", folder.string(), kind), problem);
    return std::nullopt;
  }

  std::optional<NvrtcFile> by_loader() {
    std::string problem;
    for (const std::string& name : {fmt::format("{}{}", kLibraryPrefix, NvrtcSearch::kMajor), std::string("libnvrtc.so")}) {
      if (const auto path = search_.loader.find(name)) {
        if (auto found = accept(*path, "the loader's path", problem)) return found;
      }
    }
    std::string folders;
    for (const auto& folder : search_.loader.before_cache) folders += folder.string() + ", ";
    note(fmt::format("the loader's path ({}{}, its built-in folders)", folders, search_.loader.cache.string()), problem);
    return std::nullopt;
  }

  std::optional<NvrtcFile> in_python_folder(const fs::path& packages) {
    const fs::path vendor = packages / "nvidia";
    for (const auto& package : list(vendor)) {
      std::string problem;
      const fs::path library = package / "lib" / fmt::format("{}{}", kLibraryPrefix, NvrtcSearch::kMajor);
      if (auto found = accept(library, fmt::format("{} (Python package)", library.parent_path().string()), problem)) return found;
      if (!problem.empty()) note(library.parent_path().string(), problem);
    }
    return std::nullopt;
  }

  void note(const std::string& place, const std::string& problem) {
    places_ += fmt::format("\n  {}{}{}", place, problem.empty() ? "" : ": ", problem);
  }

  const NvrtcSearch& search_;
  std::string places_;
};

}  // namespace

NvrtcSearch NvrtcSearch::from_process(const RuntimeOptions& options) {
  NvrtcSearch search;
  if (options.nvrtc && !options.nvrtc->empty()) search.given = options.nvrtc;
  search.folders = options.nvrtc_search_folders;
  search.loader = LoaderPath::of_this_process();
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto folder = environment(name)) search.toolkits.push_back(*folder / "lib64");
  }
  if (const auto folder = environment("CONDA_PREFIX")) search.toolkits.push_back(*folder / "lib");
  search.toolkits.emplace_back("/usr/local/cuda/lib64");
  if (const auto folders = environment("PYTHONPATH")) search.python_folders = split_path_list(folders->string());
  search.python_folders.emplace_back("/usr/lib/python3/dist-packages");
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const auto folder = environment(name)) search.python_prefixes.push_back(*folder / "lib");
  }
  if (const auto home = environment("HOME")) search.python_prefixes.push_back(*home / ".local/lib");
  search.python_prefixes.emplace_back("/usr/local/lib");
  search.python_prefixes.emplace_back("/usr/lib");
  return search;
}

Result<NvrtcFile> find_nvrtc(const NvrtcSearch& search) {
  return Finder(search).run();
}

std::string builtins_name(int major, int minor) {
  return fmt::format("libnvrtc-builtins.so.{}.{}", major, minor);
}

std::optional<NvrtcBuiltins> builtins_beside(const NvrtcFile& nvrtc) {
  const std::string prefix = fmt::format("libnvrtc-builtins.so.{}.", nvrtc.major);
  std::optional<NvrtcBuiltins> found;
  for (const auto& path : list(nvrtc.library.parent_path())) {
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix)) continue;
    // "13.0" only: a longer number is the file that such a name links to.
    const auto minor = number(std::string_view(name).substr(prefix.size()));
    if (!minor) continue;
    if (found) return std::nullopt;
    std::error_code error;
    fs::path real = fs::canonical(path, error);
    if (error) continue;
    found = NvrtcBuiltins{std::move(real), *minor};
  }
  return found;
}

NvrtcBuiltins builtins_of(const NvrtcFile& nvrtc, int minor, const LoaderPath& loader) {
  const std::string name = builtins_name(nvrtc.major, minor);
  std::error_code error;
  if (fs::path beside = fs::canonical(nvrtc.library.parent_path() / name, error); !error) return {std::move(beside), minor};
  if (const auto found = loader.find(name)) {
    if (fs::path real = fs::canonical(*found, error); !error) return {std::move(real), minor};
  }
  return {{}, minor};
}

Result<std::string> library_identity(const fs::path& library) {
  const auto file = MappedFile::open(library);
  if (!file) return fail(Error(file.error()));
  if (auto id = elf::build_id(file->bytes())) return "build-id:" + *id;
  return "xxh3:" + content_hash(file->bytes());
}

}  // namespace kernwright
