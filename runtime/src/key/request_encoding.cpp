// The key fields of a request and of a compiler, written and read.
#include <limits>

#include "key/key.hpp"

namespace kernwright {
namespace {

// Raised whenever a field is added, dropped or changes its meaning: every older entry then misses.
constexpr std::int64_t kRequestFormat = 1;
constexpr std::int64_t kCompilerFormat = 1;

// Far above anything real; a count in a damaged entry is refused before anything is reserved for it.
constexpr std::size_t kMostItems = 1U << 20;
constexpr std::size_t kMostParameters = 1024;

std::string_view as_view(const EntryKey& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

void encode_value(FieldEncoder& fields, const ParameterValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    fields.field("kind", "int").field("value", *number);
  } else {
    fields.field("kind", "dtype").field("value", static_cast<std::int64_t>(std::get<DType>(value)));
  }
}

int decode_axis(FieldDecoder& fields, std::string_view tag) {
  return static_cast<int>(fields.count(tag, std::numeric_limits<int>::max()));
}

bool is_dtype(std::int64_t value) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64, DType::u8}) {
    if (value == static_cast<std::int64_t>(dtype)) return true;
  }
  return false;
}

void decode_parameter(FieldDecoder& fields, Specialisation& specialisation) {
  const std::string_view name = fields.field("name");
  const std::string_view kind = fields.field("kind");
  const std::int64_t value = fields.integer("value");
  if (specialisation.get(name)) fields.refuse();  // a name twice would be dropped silently
  if (kind == "int") {
    specialisation.set(name, value);
  } else if (kind == "dtype" && is_dtype(value)) {
    specialisation.set(name, static_cast<DType>(value));
  } else {
    fields.refuse();
  }
}

}  // namespace

std::string encode_request(const BuildRequest& request, SourceForm form) {
  FieldEncoder fields;
  fields.field("request", kRequestFormat);
  fields.field("kind", request.kind == ArtifactKind::kernel ? "kernel" : "plans");
  fields.field("template", request.template_name).field("entry", request.entry);
  fields.field("parameters", static_cast<std::int64_t>(request.specialisation.items().size()));
  for (const auto& item : request.specialisation.items()) {
    fields.field("name", item.name);
    encode_value(fields, item.value);
  }
  fields.field("tiles", static_cast<std::int64_t>(request.tiles.size()));
  for (const Tile& tile : request.tiles) {
    fields.field("variant", tile.variant).field("block_m", tile.block_m).field("block_n", tile.block_n);
    fields.field("stages", tile.stages).field("warps", tile.warps);
  }
  fields.field("target", request.target.name());
  fields.field("sources", static_cast<std::int64_t>(request.sources.size()));
  for (const SourceFile& source : request.sources) {
    fields.field("name", source.name);
    if (form == SourceForm::content) {
      fields.field("content", source.content);
    } else {
      fields.field("digest", as_view(digest(source.content)));
    }
  }
  fields.field("options", static_cast<std::int64_t>(request.options.size()));
  for (const std::string& option : request.options) fields.field("option", option);
  return fields.bytes();
}

std::string encode_compiler(const CompilerIdentity& compiler) {
  FieldEncoder fields;
  fields.field("compiler", kCompilerFormat).field("name", compiler.name).field("version", compiler.version);
  fields.field("components", static_cast<std::int64_t>(compiler.components.size()));
  for (const auto& [name, id] : compiler.components) fields.field("name", name).field("id", id);
  return fields.bytes();
}

EntryKey entry_key(const BuildRequest& request, const CompilerIdentity& compiler) {
  FieldEncoder fields;
  fields.field("request", encode_request(request)).field("compiler", encode_compiler(compiler));
  return fields.hash();
}

Result<BuildRequest> decode_request(std::string_view bytes) {
  BuildRequest request;
  FieldDecoder fields(bytes);
  if (fields.integer("request") != kRequestFormat) fields.refuse();
  const std::string_view kind = fields.field("kind");
  if (kind != "kernel" && kind != "plans") fields.refuse();
  request.kind = kind == "plans" ? ArtifactKind::plans : ArtifactKind::kernel;
  request.template_name = fields.field("template");
  request.entry = fields.field("entry");
  const std::size_t parameters = fields.count("parameters", kMostParameters);
  for (std::size_t i = 0; i < parameters && fields.ok(); ++i) decode_parameter(fields, request.specialisation);
  const std::size_t tiles = fields.count("tiles", kMostItems);
  for (std::size_t i = 0; i < tiles && fields.ok(); ++i) {
    Tile tile;
    tile.variant = fields.field("variant");
    tile.block_m = decode_axis(fields, "block_m");
    tile.block_n = decode_axis(fields, "block_n");
    tile.stages = decode_axis(fields, "stages");
    tile.warps = decode_axis(fields, "warps");
    request.tiles.push_back(std::move(tile));
  }
  if (auto target = Target::parse(fields.field("target"))) {
    request.target = std::move(*target);
  } else {
    fields.refuse();
  }
  const std::size_t sources = fields.count("sources", kMostItems);
  for (std::size_t i = 0; i < sources && fields.ok(); ++i) {
    SourceFile source;
    source.name = fields.field("name");
    source.content = fields.field("digest");
    if (source.content.size() != sizeof(EntryKey::bytes)) fields.refuse();
    request.sources.push_back(std::move(source));
  }
  const std::size_t options = fields.count("options", kMostItems);
  for (std::size_t i = 0; i < options && fields.ok(); ++i) request.options.emplace_back(fields.field("option"));
  if (!fields.finished()) return fail(ErrorCode::malformed, "the stored request is not in the form of its format version");
  return request;
}

Result<CompilerIdentity> decode_compiler(std::string_view bytes) {
  CompilerIdentity compiler;
  FieldDecoder fields(bytes);
  if (fields.integer("compiler") != kCompilerFormat) fields.refuse();
  compiler.name = fields.field("name");
  compiler.version = fields.field("version");
  const std::size_t components = fields.count("components", kMostItems);
  for (std::size_t i = 0; i < components && fields.ok(); ++i) {
    std::string name(fields.field("name"));
    compiler.components.emplace_back(std::move(name), fields.field("id"));
  }
  if (!fields.finished()) return fail(ErrorCode::malformed, "the stored compiler identity is not in the form of its format version");
  return compiler;
}

}  // namespace kernwright
