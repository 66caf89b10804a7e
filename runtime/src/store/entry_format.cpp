#include "store/entry_format.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "key/key.hpp"
#include "platform/file_system.hpp"
#include "store/closure.hpp"
#include "store/entry_layout.hpp"

namespace kernwright {
namespace {

tl::unexpected<Error> bad(std::string reason) {
  return fail(ErrorCode::malformed, std::move(reason));
}

std::string_view raw(const EntryKey& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

std::string tiles_text(const std::vector<Tile>& tiles) {
  std::string line;
  for (const Tile& tile : tiles) {
    if (!line.empty()) line += ' ';
    line += tile.text();
  }
  return line;
}

/// Names the first key field of the stored request (sources as digests) that is not the expected one's.
std::string first_difference(const BuildRequest& stored, const BuildRequest& expected) {
  const auto differs = [](std::string_view field, std::string_view held, std::string_view asked) {
    return fmt::format("it holds another request: {} is '{}', asked for was '{}'", field, held, asked);
  };
  if (stored.kind != expected.kind) return "it holds another request: a kernel's in place of a plan table's, or the reverse";
  if (stored.template_name != expected.template_name) return differs("template", stored.template_name, expected.template_name);
  if (stored.entry != expected.entry) return differs("entry", stored.entry, expected.entry);
  if (stored.specialisation != expected.specialisation)
    return differs("specialisation", stored.specialisation.text(), expected.specialisation.text());
  if (stored.tiles != expected.tiles) return differs("tiles", tiles_text(stored.tiles), tiles_text(expected.tiles));
  if (stored.target != expected.target) return differs("target", stored.target.name(), expected.target.name());
  if (stored.options != expected.options) return "it holds another request: the compiler's options differ";
  if (stored.sources.size() != expected.sources.size()) return "it holds another request: the number of sources differs";
  for (std::size_t i = 0; i < stored.sources.size(); ++i) {
    if (stored.sources[i].name != expected.sources[i].name)
      return differs("a source's name", stored.sources[i].name, expected.sources[i].name);
    if (stored.sources[i].content != raw(digest(expected.sources[i].content))) {
      return fmt::format("it holds another request: the content of '{}' differs", stored.sources[i].name);
    }
  }
  return "it holds another request";
}

std::string request_difference(std::string_view stored, const BuildRequest& expected) {
  const auto decoded = decode_request(stored);
  return decoded ? first_difference(*decoded, expected) : decoded.error().message;
}

Result<> check_plans(const EntryLayout& layout, const BuildRequest& request) {
  if (request.kind == ArtifactKind::kernel && request.tiles.size() != 1) {
    return bad(fmt::format("it holds a kernel of {} tiles, and a kernel has one", request.tiles.size()));
  }
  if (layout.plans.size() == request.tiles.size()) return {};
  return bad(fmt::format("it holds {} plans for {} tiles", layout.plans.size(), request.tiles.size()));
}

Artifact common_parts(const EntryLayout& layout) {
  Artifact artifact;
  artifact.key = layout.key;
  artifact.plans = layout.plans;
  artifact.resources = layout.resources;
  artifact.compile_seconds = layout.compile_seconds;
  return artifact;
}

void assign_binary(Artifact& artifact, std::string_view bytes) {
  const auto binary = as_bytes(bytes);
  artifact.binary.assign(binary.begin(), binary.end());
}

/// The stored sources, each checked against the digest that the key fields hold of it.
Result<std::vector<SourceFile>> verified_sources(const EntryLayout& layout, const BuildRequest& request) {
  auto bytes = decompress(layout.closure, layout.closure_bytes);
  if (!bytes) return fail(std::move(bytes.error()));
  auto sources = read_closure(*bytes);
  if (!sources) return sources;
  if (sources->size() != request.sources.size()) return bad("it holds another number of sources than its key fields name");
  for (std::size_t i = 0; i < sources->size(); ++i) {
    const SourceFile& held = (*sources)[i];
    if (held.name != request.sources[i].name || raw(digest(held.content)) != request.sources[i].content) {
      return bad("its sources are not those that its key fields name");
    }
  }
  return sources;
}

}  // namespace

Result<std::vector<std::byte>> encode_entry(const Artifact& artifact) {
  if (artifact.plans.size() != artifact.request.tiles.size()) {
    return fail(ErrorCode::invalid_argument, fmt::format("an entry needs one plan a tile: {} plans came for {} tiles",
                                                         artifact.plans.size(), artifact.request.tiles.size()));
  }
  if (!std::isfinite(artifact.compile_seconds) || artifact.compile_seconds < 0 || artifact.resources.registers < 0) {
    return fail(ErrorCode::invalid_argument, "an entry needs a compile time and a register count that are numbers of 0 or more");
  }
  const std::string sources = write_closure(artifact.request.sources);
  if (sources.size() > kLargestClosure.count) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the sources have {} bytes, an entry holds at most {}", sources.size(), kLargestClosure.count));
  }
  auto closure = compress(sources);
  if (!closure) return fail(std::move(closure.error()));
  const std::string request = encode_request(artifact.request, SourceForm::digest);
  const std::string compiler = encode_compiler(artifact.compiler);
  EntryLayout layout;
  layout.key = artifact.key;
  layout.request = request;
  layout.compiler = compiler;
  layout.plans = artifact.plans;
  layout.resources = artifact.resources;
  layout.compile_seconds = artifact.compile_seconds;
  layout.closure_bytes = sources.size();
  layout.binary = as_text(artifact.binary);
  layout.log = artifact.log;
  layout.closure = *closure;
  const std::string header = write_entry_header(layout);
  const std::uint64_t size = kEntryPrefixBytes + header.size() + layout.binary.size() + layout.log.size() + layout.closure.size();
  if (size > kLargestEntry.count) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the entry would have {} bytes, at most {} are stored", size, kLargestEntry.count));
  }
  return assemble_entry(header, layout.binary, layout.log, layout.closure);
}

Result<Artifact> decode_entry_for(std::span<const std::byte> file, const EntryExpectation& expected) {
  const auto layout = read_entry_layout(file);
  if (!layout) return fail(Error(layout.error()));
  if (layout->key != expected.key) return bad(fmt::format("it holds the entry of another key, {}", layout->key.hex()));
  if (layout->request != encode_request(expected.request, SourceForm::digest))
    return bad(request_difference(layout->request, expected.request));
  if (layout->compiler != encode_compiler(expected.compiler)) return bad("it was made by another compiler than the one asked for");
  if (auto checked = check_plans(*layout, expected.request); !checked) return fail(std::move(checked.error()));
  Artifact artifact = common_parts(*layout);
  artifact.request.kind = expected.request.kind;
  artifact.request.template_name = expected.request.template_name;
  artifact.request.entry = expected.request.entry;
  artifact.request.specialisation = expected.request.specialisation;
  artifact.request.tiles = expected.request.tiles;
  artifact.request.target = expected.request.target;
  artifact.request.options = expected.request.options;
  artifact.compiler = expected.compiler;
  assign_binary(artifact, layout->binary);
  return artifact;
}

Result<Artifact> decode_entry(std::span<const std::byte> file) {
  const auto layout = read_entry_layout(file);
  if (!layout) return fail(Error(layout.error()));
  auto request = decode_request(layout->request);
  if (!request) return fail(std::move(request.error()));
  auto compiler = decode_compiler(layout->compiler);
  if (!compiler) return fail(std::move(compiler.error()));
  if (auto checked = check_plans(*layout, *request); !checked) return fail(std::move(checked.error()));
  auto sources = verified_sources(*layout, *request);
  if (!sources) return fail(std::move(sources.error()));
  Artifact artifact = common_parts(*layout);
  artifact.request = std::move(*request);
  artifact.request.sources = std::move(*sources);
  artifact.compiler = std::move(*compiler);
  artifact.log = layout->log;
  assign_binary(artifact, layout->binary);
  if (entry_key(artifact.request, artifact.compiler) != artifact.key) return bad("its key is not that of its fields");
  return artifact;
}

}  // namespace kernwright
