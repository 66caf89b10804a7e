// Launch lists as files: Runtime::read_launch_list and Runtime::write_launch_list.
#include <fmt/format.h>

#include "kernwright/runtime.hpp"
#include "launch_list/launch_list.hpp"
#include "manifest/toml_bounds.hpp"
#include "prepare/boundary.hpp"
#include "prepare/candidates.hpp"

namespace kernwright {
namespace {

/// Template, parameters and tile against the manifest, so that a wrong word is refused before anything compiles.
Result<> check_launch(Runtime::State& state, const Launch& launch) {
  auto specialised = specialise(state, launch.template_name, launch.specialisation);
  if (!specialised) return fail(std::move(specialised.error()));
  return launch.tile ? specialised->definition->manifest.check_tile(*launch.tile) : Result<>{};
}

Result<LaunchList> read_list(Runtime::State& state, const std::filesystem::path& file) {
  auto content = state.files->read(file, Bytes{kMostTomlBytes});
  if (!content) return fail(std::move(content.error()).within("reading a launch list"));
  auto list = parse_launch_list(as_text(*content), file.string());
  if (!list) return list;
  for (const Launch& launch : list->launches) {
    if (auto checked = check_launch(state, launch); !checked) {
      Error error = std::move(checked.error());
      error.message = fmt::format("{}:{}: [[launch]]: {}", file.string(), launch.line, error.message);
      return fail(std::move(error));
    }
  }
  return list;
}

}  // namespace

Result<std::vector<WarmRequest>> Runtime::read_launch_list(const std::filesystem::path& file, std::span<const Target> targets) const {
  return without_exceptions([&]() -> Result<std::vector<WarmRequest>> {
    const auto list = read_list(*state_, file);
    if (!list) return fail(Error(list.error()));
    return launch_requests(*list, targets, file.string());
  });
}

Result<> Runtime::write_launch_list(const std::filesystem::path& file) const {
  return without_exceptions([&]() -> Result<> {
    const auto text = kernwright::write_launch_list(state_->launch_record.list());
    if (!text) return fail(Error(text.error()));
    auto written = state_->files->publish(file, as_bytes(*text));
    if (!written) return fail(std::move(written.error()).within("writing the launch list " + file.string()));
    return {};
  });
}

}  // namespace kernwright
