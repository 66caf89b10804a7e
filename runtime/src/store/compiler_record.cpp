#include "store/compiler_record.hpp"

#include <fmt/format.h>

#include "key/key.hpp"
#include "manifest/toml_reader.hpp"

namespace kernwright {
namespace {

constexpr std::int64_t kCompilerRecordFormat = 1;
constexpr std::size_t kLabelDigits = 8;

}  // namespace

std::string compiler_record_name(const CompilerIdentity& compiler) {
  return content_hash(std::string_view(encode_compiler(compiler)));
}

std::string compiler_label(const CompilerIdentity& compiler) {
  return fmt::format("{} {} ({})", compiler.name, compiler.version.substr(0, compiler.version.find('\n')),
                     compiler_record_name(compiler).substr(0, kLabelDigits));
}

std::string write_compiler_record(const CompilerIdentity& compiler) {
  std::string toml =
      fmt::format("format = {}\nname = {}\nversion = {}\n", kCompilerRecordFormat, toml_quote(compiler.name), toml_quote(compiler.version));
  for (const auto& [name, id] : compiler.components)
    toml += fmt::format("\n[[component]]\nname = {}\nid = {}\n", toml_quote(name), toml_quote(id));
  return toml;
}

Result<CompilerIdentity> parse_compiler_record(std::string_view toml, std::string_view file_name) {
  const auto table = parse_toml(toml, file_name);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, std::string(file_name), "");
  if (auto format = reader.require_format(kCompilerRecordFormat); !format) return fail(std::move(format.error()));
  CompilerIdentity compiler;
  auto name = reader.string("name");
  if (!name) return fail(std::move(name.error()));
  compiler.name = std::move(*name);
  auto version = reader.string("version");
  if (!version) return fail(std::move(version.error()));
  compiler.version = std::move(*version);
  auto components = reader.tables("component");
  if (!components) return fail(std::move(components.error()));
  for (TomlReader& component : *components) {
    auto part = component.string("name");
    if (!part) return fail(std::move(part.error()));
    auto id = component.string("id");
    if (!id) return fail(std::move(id.error()));
    if (auto finished = component.finish(); !finished) return fail(std::move(finished.error()));
    compiler.components.emplace_back(std::move(*part), std::move(*id));
  }
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  return compiler;
}

}  // namespace kernwright
