#include "store/fit.hpp"

#include <fmt/format.h>

#include <limits>

#include "key/key.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kFitFormat = 1;

Result<Tile> read_tile(TomlReader& reader, std::string_view key) {
  auto text = reader.string(key);
  if (!text) return fail(std::move(text.error()));
  auto tile = Tile::parse(*text);
  if (!tile) return fail(reader.error(key, "is wrong: " + tile.error().message));
  return tile;
}

/// An integer of 0 or more that fits an int.
Result<int> read_count(TomlReader& reader, std::string_view key) {
  auto value = reader.integer(key);
  if (!value) return fail(std::move(value.error()));
  if (*value < 0 || *value > std::numeric_limits<int>::max())
    return fail(reader.error(key, fmt::format("is {}; it must be 0 or more", *value)));
  return static_cast<int>(*value);
}

Result<Fit> read_record(TomlReader& reader) {
  Fit fit;
  struct Text {
    std::string_view key;
    std::string& value;
  };
  for (const Text& text : {Text{"template", fit.template_name}, Text{"specialisation", fit.specialisation}, Text{"target", fit.target},
                           Text{"device", fit.device_name}, Text{"compiler", fit.compiler}, Text{"reason", fit.reason}}) {
    auto value = reader.string(text.key);
    if (!value) return fail(std::move(value.error()));
    text.value = std::move(*value);
  }
  auto major = read_count(reader, "capability_major");
  if (!major) return fail(std::move(major.error()));
  fit.capability_major = *major;
  auto minor = read_count(reader, "capability_minor");
  if (!minor) return fail(std::move(minor.error()));
  fit.capability_minor = *minor;
  auto shared = reader.integer("shared_memory_per_block");
  if (!shared) return fail(std::move(shared.error()));
  if (*shared < 0) return fail(reader.error("shared_memory_per_block", fmt::format("is {}; it must be 0 or more bytes", *shared)));
  fit.shared_memory_per_block = {static_cast<std::uint64_t>(*shared)};
  auto asked = read_tile(reader, "asked");
  if (!asked) return fail(std::move(asked.error()));
  fit.asked = std::move(*asked);
  auto fitted = read_tile(reader, "fitted");
  if (!fitted) return fail(std::move(fitted.error()));
  fit.fitted = std::move(*fitted);
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return fit;
}

}  // namespace

FitKey fit_key(std::string_view template_digest, const BuildRequest& request, const DeviceInfo& device, const CompilerIdentity& compiler,
               const Tile& asked) {
  // The request without what the tile decides: neither tiles nor sources (the variant and the generated header follow from the tile; the
  // template's digest stands for all variants' closures).
  BuildRequest shared;
  shared.template_name = request.template_name;
  shared.entry = request.entry;
  shared.specialisation = request.specialisation;
  shared.target = request.target;
  shared.options = request.options;
  FieldEncoder fields;
  fields.field("fit", kFitFormat).field("template", template_digest).field("request", encode_request(shared));
  fields.field("device", device.name).field("capability_major", device.capability_major).field("capability_minor", device.capability_minor);
  fields.field("shared_memory_per_block", static_cast<std::int64_t>(device.shared_memory_per_block.count));
  fields.field("compiler", encode_compiler(compiler)).field("asked", asked.text());
  return {fields.hash()};
}

std::string write_fit(const Fit& fit) {
  return fmt::format(
      "format = {}\n\n[[fit]]\ntemplate = {}\nspecialisation = {}\ntarget = {}\ndevice = {}\ncapability_major = {}\ncapability_minor = {}\n"
      "shared_memory_per_block = {}\ncompiler = {}\nasked = {}\nfitted = {}\nreason = {}\n",
      kFitFormat, toml_quote(fit.template_name), toml_quote(fit.specialisation), toml_quote(fit.target), toml_quote(fit.device_name),
      fit.capability_major, fit.capability_minor, fit.shared_memory_per_block.count, toml_quote(fit.compiler), toml_quote(fit.asked.text()),
      toml_quote(fit.fitted.text()), toml_quote(fit.reason));
}

Result<Fit> parse_fit(std::string_view toml) {
  constexpr std::string_view kName = "fit";
  const auto table = parse_toml(toml, kName);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, std::string(kName), "");
  if (auto format = reader.require_format(kFitFormat); !format) return fail(std::move(format.error()));
  auto records = reader.tables("fit");
  if (!records) return fail(std::move(records.error()));
  if (records->size() != 1) return fail(reader.error("fit", fmt::format("stands {} times; one record a file is legal", records->size())));
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return read_record(records->front());
}

}  // namespace kernwright
