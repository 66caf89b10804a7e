// Where templates come from: the tree compiled into the library, and a folder that is laid over it.
#include <fmt/format.h>

#include <algorithm>

#include "templates/embedded_file.hpp"
#include "templates/template_set.hpp"

namespace kernwright {
namespace {

constexpr Bytes kLargestTemplateFile = mebibytes(4);
constexpr int kDeepestFolder = 8;

bool is_manifest(std::string_view name) {
  return name.ends_with(".toml");
}

bool is_template_file(std::string_view name) {
  return name.ends_with(".cu") || name.ends_with(".cuh") || is_manifest(name);
}

Result<> read_folder(const std::filesystem::path& folder, const std::string& prefix, int depth, FileSystem& files, FileMap& tree) {
  if (depth > kDeepestFolder)
    return fail(ErrorCode::malformed, fmt::format("{}: folders are nested deeper than {}", folder.string(), kDeepestFolder));
  auto names = files.list(folder);
  if (!names) return fail(std::move(names.error()));
  for (const std::string& name : *names) {
    const std::filesystem::path path = folder / name;
    auto status = files.status(path);
    if (!status) return fail(std::move(status.error()));
    if (status->folder) {
      if (auto inner = read_folder(path, prefix + name + "/", depth + 1, files, tree); !inner) return inner;
    } else if (is_template_file(name)) {
      auto content = files.read(path, kLargestTemplateFile);
      if (!content) return fail(std::move(content.error()));
      tree.emplace(prefix + name, std::string(as_text(*content)));
    }
  }
  return {};
}

}  // namespace

FileMap embedded_template_tree() {
  FileMap tree;
  for (const EmbeddedFile& file : embedded_kernel_templates()) tree.emplace(file.name, std::string(file.content));
  return tree;
}

Result<FileMap> template_tree_in_folder(const std::filesystem::path& folder, FileSystem& files) {
  const std::string step = "reading the template folder " + folder.string();
  auto status = files.status(folder);
  if (!status) return fail(std::move(status.error()).within(step));
  if (!status->folder) return fail(ErrorCode::invalid_argument, fmt::format("template folder {} is not a folder", folder.string()));
  FileMap tree;
  if (auto read = read_folder(folder, "", 0, files, tree); !read) return fail(std::move(read.error()).within(step));
  if (tree.empty()) {
    return fail(ErrorCode::invalid_argument, fmt::format("template folder {} holds no template file (.toml, .cu, .cuh); name the one that "
                                                         "their paths begin in, so that FOLDER/my_engine/scale.toml is a manifest",
                                                         folder.string()));
  }
  return tree;
}

Result<std::shared_ptr<TemplateSet>> template_set_of(const FileMap& tree, const FileMap& overlay) {
  FileMap all = overlay;
  all.insert(tree.begin(), tree.end());
  FileMap library_files;
  TemplateSource source;
  for (const auto& [name, content] : all) {
    if (is_manifest(name)) continue;
    source.files.push_back({name, content});
    if (name.starts_with("common/")) library_files.emplace(name, content);
  }
  auto set = std::make_shared<TemplateSet>(std::move(library_files));
  const auto add = [&](const std::string& name, const std::string& manifest) -> Result<> {
    source.manifest = manifest;
    auto added = set->add(source);
    return added ? added : Result<>(fail(std::move(added.error()).within(name)));
  };
  for (const auto& [name, content] : overlay) {
    if (!is_manifest(name)) continue;
    if (auto added = add(name, content); !added) return fail(std::move(added.error()));
  }
  const std::vector<std::string> replaced = set->names();
  for (const auto& [name, content] : tree) {
    if (!is_manifest(name) || overlay.contains(name)) continue;
    if (!replaced.empty()) {
      const auto manifest = parse_manifest(content, name);
      if (manifest && std::ranges::find(replaced, manifest->name) != replaced.end()) continue;
    }
    if (auto added = add(name, content); !added) return fail(std::move(added.error()));
  }
  return set;
}

}  // namespace kernwright
