// Where templates come from: the tree compiled into the library, or a folder.
#include <fmt/format.h>

#include "templates/embedded_file.hpp"
#include "templates/template_set.hpp"

namespace kernwright {
namespace {

constexpr Bytes kLargestTemplateFile = mebibytes(4);
constexpr int kDeepestFolder = 8;

bool is_template_file(std::string_view name) {
  return name.ends_with(".cu") || name.ends_with(".cuh") || name.ends_with(".toml");
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
  return tree;
}

Result<std::shared_ptr<TemplateSet>> template_set_of(const FileMap& tree) {
  FileMap library_files;
  for (const auto& [name, content] : tree) {
    if (name.starts_with("common/") && !name.ends_with(".toml")) library_files.emplace(name, content);
  }
  auto set = std::make_shared<TemplateSet>(std::move(library_files));
  for (const auto& [name, content] : tree) {
    if (!name.ends_with(".toml")) continue;
    TemplateSource source;
    source.manifest = content;
    for (const auto& [other, text] : tree) {
      if (!other.ends_with(".toml")) source.files.push_back({other, text});
    }
    if (auto added = set->add(source); !added) return fail(std::move(added.error()).within(name));
  }
  return set;
}

}  // namespace kernwright
