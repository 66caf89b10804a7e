#include "templates/template_set.hpp"

#include <fmt/format.h>

#include "key/key.hpp"

namespace kernwright {
namespace {

constexpr std::string_view kPlanTypeName = "common/plan.cuh";

/// The files that the plan header and every variant reach, and the digest of them and the manifest's text.
Result<> complete_definition(TemplateDefinition& definition, const FileMap& available, const std::string& manifest_text) {
  std::vector<std::string> roots{definition.manifest.plan};
  for (const ManifestVariant& variant : definition.manifest.variants) roots.push_back(variant.source);
  for (const std::string& root : roots) {
    auto closure = resolve_closure(available, root);
    if (!closure) return fail(std::move(closure.error()));
    for (SourceFile& file : *closure) definition.files.insert_or_assign(std::move(file.name), std::move(file.content));
  }
  // The generated header includes it even where no file of the template does.
  const auto plan_type = available.find(kPlanTypeName);
  if (plan_type == available.end()) return fail(ErrorCode::not_found, fmt::format("{} is missing from the template tree", kPlanTypeName));
  definition.files.insert(*plan_type);

  FieldEncoder encoder;
  encoder.field("manifest", manifest_text);
  for (const auto& [name, content] : definition.files) encoder.field("name", name).field("content", content);
  definition.digest = encoder.hash().hex();
  return {};
}

}  // namespace

Result<> TemplateSet::add(const TemplateSource& source) {
  auto manifest = parse_manifest(source.manifest, "manifest");
  if (!manifest) return fail(std::move(manifest.error()).within("reading a template's manifest"));
  auto definition = std::make_shared<TemplateDefinition>();
  definition->manifest = std::move(*manifest);

  FileMap available = library_files_;
  for (const TemplateSource::File& file : source.files) {
    if (file.name.starts_with("kernwright/")) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("template {}: file name '{}': names under kernwright/ are generated; choose another folder",
                              definition->manifest.name, file.name));
    }
    const auto [place, inserted] = available.emplace(file.name, file.content);
    if (!inserted && place->second != file.content) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("template {}: file '{}' comes twice with different content{}", definition->manifest.name, file.name,
                              library_files_.contains(file.name) ? " (names under common/ are Kernwright's own)" : ""));
    }
  }
  if (auto completed = complete_definition(*definition, available, source.manifest); !completed) {
    return fail(std::move(completed.error()).within("reading template " + definition->manifest.name));
  }

  const std::lock_guard lock(mutex_);
  const auto [place, inserted] = templates_.emplace(definition->manifest.name, definition);
  if (!inserted && place->second->digest != definition->digest) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("template '{}' is registered already with other content; give the new one another name", definition->manifest.name));
  }
  return {};
}

Result<std::shared_ptr<const TemplateDefinition>> TemplateSet::find(std::string_view name) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = templates_.find(name); found != templates_.end()) return found->second;
  }
  std::string known;
  for (const std::string& other : names()) known += (known.empty() ? "" : ", ") + other;
  return fail(ErrorCode::not_found, fmt::format("no template is named '{}'; known are: {}; one of your own is known once it is registered "
                                                "(register_template) or lies in the template folder (template_folder, --templates FOLDER)",
                                                name, known));
}

std::vector<std::string> TemplateSet::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [name, definition] : templates_) all.push_back(name);
  return all;
}

}  // namespace kernwright
