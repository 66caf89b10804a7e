// The templates a runtime knows: embedded ones, a folder's, an engine's own.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/template_source.hpp"
#include "manifest/manifest.hpp"
#include "platform/file_system.hpp"

namespace kernwright {

/// Files by virtual name.
using FileMap = std::map<std::string, std::string, std::less<>>;

/// One template, complete: immutable once made.
struct TemplateDefinition {
  Manifest manifest;
  FileMap files;       ///< Every file that its variants and its plan header reach.
  std::string digest;  ///< Content hash of the manifest and of all its variants' closures.
};

/// A source and everything it includes with #include "…", by content; [0] is `main`, the rest sorted by name. The names of generated
/// headers (kernwright/…) are skipped. not_found names the includer, the line and the missing file; <…> includes are refused.
Result<std::vector<SourceFile>> resolve_closure(const FileMap& files, const std::string& main);

/// Thread-safe.
class TemplateSet {
 public:
  /// `library_files` (common/…) may be included by every template and replaced by none.
  explicit TemplateSet(FileMap library_files) : library_files_(std::move(library_files)) {}
  /// Adding the same text twice is no error; another text under a name that exists is.
  Result<> add(const TemplateSource& source);
  Result<std::shared_ptr<const TemplateDefinition>> find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  const FileMap library_files_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const TemplateDefinition>, std::less<>> templates_;
};

/// The tree compiled into the library, or a folder laid out like kernel_templates/. A folder without a single template file is an error:
/// it is the wrong one.
FileMap embedded_template_tree();
Result<FileMap> template_tree_in_folder(const std::filesystem::path& folder, FileSystem& files);
/// A set with the tree's common/ as library files and one template for each manifest (*.toml) in it. A file of `overlay` stands in place of
/// the tree's of the same name, and a template of `overlay` in place of the tree's, wherever its manifest lies.
Result<std::shared_ptr<TemplateSet>> template_set_of(const FileMap& tree, const FileMap& overlay = {});

/// The request that compiles one tile, or the plans of several (see ArtifactKind).
Result<BuildRequest> kernel_request(const TemplateDefinition& definition, const Specialisation& specialisation, const Tile& tile,
                                    const Target& target);
Result<BuildRequest> plans_request(const TemplateDefinition& definition, const Specialisation& specialisation,
                                   const std::vector<Tile>& tiles, const Target& target);

}  // namespace kernwright
