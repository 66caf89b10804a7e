// The templates a runtime knows: embedded ones, a folder's, an engine's own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/template_source.hpp"
#include "manifest/manifest.hpp"

namespace kernwright {

/// One template, complete: immutable once made.
struct TemplateDefinition {
  Manifest manifest;
  std::map<std::string, std::string, std::less<>> files;  ///< Every file it may include, by virtual name.
  std::string digest;                                     ///< Content hash of the manifest and of all its variants' closures.
};

/// A source and everything it includes with #include "…", by content; [0] is `main`, the rest sorted by name. The names of generated
/// headers (kernwright/…) are skipped. not_found names the includer, the line and the missing file; <…> includes are refused.
Result<std::vector<SourceFile>> resolve_closure(const std::map<std::string, std::string, std::less<>>& files, const std::string& main);

/// Thread-safe.
class TemplateSet {
 public:
  Result<> add(const TemplateSource& source);
  Result<std::shared_ptr<const TemplateDefinition>> find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const TemplateDefinition>, std::less<>> templates_;
};

/// The files compiled into the library, or of a folder laid out like kernel_templates/. One source a manifest.
std::vector<TemplateSource> embedded_templates();
Result<std::vector<TemplateSource>> templates_in_folder(const std::filesystem::path& folder);

/// The request that compiles one tile, or the plans of several (see ArtifactKind).
Result<BuildRequest> kernel_request(const TemplateDefinition& definition, const Specialisation& specialisation, const Tile& tile, const Target& target);
Result<BuildRequest> plans_request(const TemplateDefinition& definition, const Specialisation& specialisation, const std::vector<Tile>& tiles,
                                   const Target& target);

}  // namespace kernwright
