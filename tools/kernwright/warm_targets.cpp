#include "warm_targets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "prepare/candidates.hpp"

namespace kernwright::tool {
namespace {

std::set<Target> cuda_targets(std::span<const WarmRequest> requests) {
  std::set<Target> targets;
  for (const WarmRequest& request : requests) {
    if (!request.target.is_host()) targets.insert(request.target);
  }
  return targets;
}

/// An empty program: a target's number and its suffix are refused by different parts of the compiler, and it goes through both.
BuildRequest probe_of(const Target& target) {
  BuildRequest request;
  request.kind = ArtifactKind::plans;
  request.template_name = "an empty program";
  request.target = target;
  request.sources.push_back({"empty.cu", "\n"});
  return request;
}

/// The compiler's own words, without the program's name in front of them and the log behind.
std::string own_words(const Error& error) {
  const std::size_t name_end = error.message.find(": ");
  const std::string words = error.message.substr(name_end == std::string::npos ? 0 : name_end + 2);
  return words.substr(0, words.find('\n'));
}

/// The variants that the requested templates have for `offered` and not for `target`.
std::set<std::string> variants_beyond(const Runtime& runtime, std::span<const WarmRequest> requests, const Target& target,
                                      const Target& offered) {
  std::set<std::string> names;
  for (const WarmRequest& request : requests) {
    if (request.target != target) continue;
    const auto specialised = specialise(runtime.state(), request.template_name, request.specialisation);
    if (!specialised) continue;
    const Manifest& manifest = specialised->definition->manifest;
    for (const ManifestVariant& variant : manifest.variants) {
      if (manifest.offers(variant, offered) && !manifest.offers(variant, target)) names.insert(variant.name);
    }
  }
  return names;
}

}  // namespace

std::string target_names() {
  std::string names = "host";
  for (const Target& target : Target::all_cuda()) names += ", " + target.name();
  return names;
}

Result<> check_targets(const Runtime& runtime, std::span<const WarmRequest> requests) {
  if (runtime.sealed()) return {};
  const auto known = Target::all_cuda();
  for (const Target& target : cuda_targets(requests)) {
    const auto compiled = runtime.state().cuda->compiler().compile(probe_of(target));
    if (compiled || compiled.error().code != ErrorCode::unsupported) continue;
    const std::string words = own_words(compiled.error());
    if (std::ranges::find(known, target) != known.end()) {
      return fail(ErrorCode::unsupported, fmt::format("target {}: {}", target.name(), words));
    }
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no target: no device asks for it, and {}; legal are {}", target.name(), words, target_names()));
  }
  return {};
}

std::vector<std::string> target_notes(const Runtime& runtime, std::span<const WarmRequest> requests) {
  std::vector<std::string> notes;
  for (const Target& target : cuda_targets(requests)) {
    const int major = target.capability() / 10, minor = target.capability() % 10;
    const auto asked = Target::for_capability(major, minor);
    if (!asked || *asked == target) continue;
    std::string line = fmt::format("no device finds what is warmed for {}: those of compute capability {}.{} ask for {}", target.name(),
                                   major, minor, asked->name());
    const std::set<std::string> beyond = variants_beyond(runtime, requests, target, *asked);
    if (!beyond.empty()) line += fmt::format(", which has variants that {} lacks: {}", target.name(), fmt::join(beyond, ", "));
    notes.push_back(std::move(line));
  }
  return notes;
}

}  // namespace kernwright::tool
