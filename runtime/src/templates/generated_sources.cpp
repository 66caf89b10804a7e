// The generated header, and the unit that computes plans. Their form is documented in kernel_templates/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "templates/template_set.hpp"

namespace kernwright {
namespace {

constexpr std::string_view kHeaderName = "kernwright/specialisation.cuh";
constexpr std::string_view kPlansName = "kernwright/plans.cu";
constexpr std::string_view kPlanTypeName = "common/plan.cuh";

std::string tile_initialiser(const Tile& tile) {
  return fmt::format("{{Variant::{}, {}, {}, {}, {}}}", tile.variant, tile.block_m, tile.block_n, tile.stages, tile.warps);
}

Result<std::string> specialisation_header(const Manifest& manifest, const Specialisation& specialisation, const Target& target,
                                          const Tile* tile) {
  std::string text = fmt::format("#pragma once\n#include \"{}\"\nnamespace kw {{\n", kPlanTypeName);
  text += "enum class DType : int { bf16 = 1, f16 = 2, f32 = 3, i32 = 4, i64 = 5, u8 = 6 };\n";
  text += "enum class Variant : int {";
  for (const ManifestVariant& variant : manifest.variants) text += fmt::format(" {},", variant.name);
  text += " };\nstruct Specialisation {";
  for (const ManifestParameter& parameter : manifest.parameters) {
    text += fmt::format(" {} {};", parameter.is_dtype ? "DType" : "int", parameter.name);
  }
  text += " };\nstruct Tile { Variant variant; int block_m; int block_n; int stages; int warps; };\n";
  text += fmt::format("inline constexpr int target_capability = {};\n", target.capability());
  text += "inline constexpr Specialisation specialisation{";
  for (const auto& item : specialisation.items()) {
    if (const auto* dtype = std::get_if<DType>(&item.value)) {
      text += fmt::format("DType::{}, ", to_string(*dtype));
      continue;
    }
    const std::int64_t value = std::get<std::int64_t>(item.value);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
      return fail(ErrorCode::invalid_argument, fmt::format("parameter {} = {} does not fit in 32 bits", item.name, value));
    }
    text += fmt::format("{}, ", value);
  }
  text += "};\n";
  if (tile != nullptr) text += fmt::format("inline constexpr Tile tile{};\n", tile_initialiser(*tile));
  text += "}\n";
  return text;
}

/// sources[0] stays first, the generated header and (where the closure lacks it) the plan's type join the sorted rest.
void add_sources(std::vector<SourceFile>& sources, const TemplateDefinition& definition, std::string header) {
  sources.push_back({std::string(kHeaderName), std::move(header)});
  const auto has_plan_type = std::any_of(sources.begin(), sources.end(), [](const SourceFile& file) { return file.name == kPlanTypeName; });
  if (!has_plan_type) {
    if (const auto plan_type = definition.files.find(kPlanTypeName); plan_type != definition.files.end()) {
      sources.push_back({plan_type->first, plan_type->second});
    }
  }
  std::sort(sources.begin() + 1, sources.end(), [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
}

BuildRequest request_of(ArtifactKind kind, const TemplateDefinition& definition, const Specialisation& specialisation,
                        std::vector<Tile> tiles, const Target& target) {
  BuildRequest request;
  request.kind = kind;
  request.template_name = definition.manifest.name;
  request.specialisation = specialisation;
  request.tiles = std::move(tiles);
  request.target = target;
  return request;
}

}  // namespace

Result<BuildRequest> kernel_request(const TemplateDefinition& definition, const Specialisation& specialisation, const Tile& tile,
                                    const Target& target) {
  const ManifestVariant* variant = definition.manifest.variant(tile.variant);
  if (variant == nullptr) return fail(ErrorCode::internal, "kernel_request: unchecked variant '" + tile.variant + "'");
  auto header = specialisation_header(definition.manifest, specialisation, target, &tile);
  if (!header) return fail(std::move(header.error()));
  auto closure = resolve_closure(definition.files, variant->source);
  if (!closure) return fail(std::move(closure.error()));
  BuildRequest request = request_of(ArtifactKind::kernel, definition, specialisation, {tile}, target);
  request.entry = definition.manifest.entry;
  request.sources = std::move(*closure);
  add_sources(request.sources, definition, std::move(*header));
  return request;
}

Result<BuildRequest> plans_request(const TemplateDefinition& definition, const Specialisation& specialisation,
                                   const std::vector<Tile>& tiles, const Target& target) {
  auto header = specialisation_header(definition.manifest, specialisation, target, nullptr);
  if (!header) return fail(std::move(header.error()));
  auto closure = resolve_closure(definition.files, definition.manifest.plan);
  if (!closure) return fail(std::move(closure.error()));
  std::string unit =
      fmt::format("#include \"{}\"\n#include \"{}\"\nusing kw::Variant;\nextern \"C\" __constant__ const kw::Plan kw_plans[{}] = {{\n",
                  kHeaderName, definition.manifest.plan, tiles.size());
  for (const Tile& tile : tiles) unit += fmt::format("  kw::make_plan(kw::specialisation, kw::Tile{}),\n", tile_initialiser(tile));
  unit += "};\n";
  BuildRequest request = request_of(ArtifactKind::plans, definition, specialisation, tiles, target);
  request.sources.push_back({std::string(kPlansName), std::move(unit)});
  for (SourceFile& file : *closure) request.sources.push_back(std::move(file));
  add_sources(request.sources, definition, std::move(*header));
  return request;
}

}  // namespace kernwright
