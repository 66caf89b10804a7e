#include "prepare/miss_error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "key/key.hpp"
#include "templates/embedded_file.hpp"

namespace kernwright {
namespace {

std::string compiler_text(const CompilerIdentity& compiler) {
  return fmt::format("{} {}", compiler.name, compiler.version.substr(0, compiler.version.find('\n')));
}

bool is_built_in(const std::string& template_name) {
  const auto files = embedded_kernel_templates();
  return std::ranges::any_of(files, [manifest = template_name + ".toml"](const EmbeddedFile& file) { return file.name == manifest; });
}

std::string warm_command(const BuildRequest& request, const std::optional<Tile>& asked) {
  std::string command = fmt::format("kernwright warm --template {}", request.template_name);
  if (const std::string constants = request.specialisation.text(); !constants.empty())
    command += fmt::format(" --specialisation \"{}\"", constants);
  command += fmt::format(" --target {}", request.target.name());
  // A kernel's tile is said even where it is the default: the tables of the machine that warms may differ.
  const bool is_kernel = request.kind == ArtifactKind::kernel;
  if (is_kernel || asked) command += fmt::format(" --tile {}", is_kernel ? request.tiles.front().text() : asked->text());
  if (!is_built_in(request.template_name)) command += " --templates FOLDER (the folder that the template's files lie in)";
  return command;
}

}  // namespace

Error miss_error(const Miss& miss) {
  const BuildRequest& request = miss.request;
  std::vector<std::string> compilers;
  std::ranges::transform(miss.compilers, std::back_inserter(compilers), compiler_text);
  std::vector<std::string> folders;
  std::ranges::transform(miss.folders, std::back_inserter(folders), [](const auto& folder) { return folder.string(); });
  const bool is_kernel = request.kind == ArtifactKind::kernel;
  return Error{
      miss.sealed ? ErrorCode::sealed_miss : ErrorCode::compiler_unavailable,
      fmt::format("{}no store holds {} of template {}, specialisation {}{}, target {}, compiler {} (key {}); looked in {}. {}Where a "
                  "compiler is, this warms it: {}",
                  miss.sealed ? "sealed, and " : "", is_kernel ? "the kernel" : "the plans", request.template_name,
                  request.specialisation.text(), is_kernel ? ", tile " + request.tiles.front().text() : "", request.target.name(),
                  fmt::join(compilers, " or "), entry_key(request, miss.compilers.front()).hex(),
                  folders.empty() ? "no store at all" : fmt::format("{}", fmt::join(folders, ", ")),
                  miss.sealed ? std::string{} : fmt::format("There is no compiler here: {}. ", miss.absence),
                  warm_command(request, miss.asked)),
      {}};
}

}  // namespace kernwright
