#include "cache_bundle.hpp"

#include <fmt/format.h>

#include <memory>

#include "cache.hpp"
#include "platform/posix_calls.hpp"
#include "reports.hpp"
#include "support/bundle/pack.hpp"
#include "support/bundle/unpack.hpp"
#include "support/format.hpp"

namespace kernwright::tool {
namespace {

Result<std::vector<Target>> parse_targets(const std::string& words) {
  std::vector<Target> targets;
  for (const std::string& word : support::split(words, ',')) {
    Result<Target> target = Target::parse(word);
    if (!target) return fail(ErrorCode::invalid_argument, fmt::format("--target {}: {}", words, target.error().message));
    targets.push_back(std::move(*target));
  }
  return targets;
}

Result<PackReport> pack(const std::string& file, const std::string& words) {
  auto targets = parse_targets(words);
  if (!targets) return fail(std::move(targets.error()));
  const auto store = open_store();
  if (!store) return fail(Error(store.error()));
  const std::shared_ptr<FileSystem> files = FileSystem::posix();
  auto packed = support::pack_bundle({*files, (*store)->folder(), std::move(*targets)}, file, std::make_shared<PosixCalls>());
  if (!packed) return fail(std::move(packed.error()));
  return PackReport{(*store)->folder().string(), file, std::move(*packed)};
}

Result<UnpackReport> unpack(const std::string& file) {
  const auto store = open_store();
  if (!store) return fail(Error(store.error()));
  const std::shared_ptr<FileSystem> files = FileSystem::posix();
  auto unpacked = support::unpack_bundle(file, **store, *files, std::make_shared<PosixCalls>());
  if (!unpacked) return fail(std::move(unpacked.error()));
  return UnpackReport{(*store)->folder().string(), file, std::move(*unpacked)};
}

}  // namespace

ExitCode cache_pack(const OutputOptions& output, const std::string& file, const std::string& targets) {
  const Result<PackReport> report = pack(file, targets);
  if (!report) return report_error(report.error());
  return finish(output.json ? json_of(*report) : text_of(*report), report->packed.left_out.empty() ? ExitCode::done : ExitCode::wrong);
}

ExitCode cache_unpack(const OutputOptions& output, const std::string& file) {
  const Result<UnpackReport> report = unpack(file);
  if (!report) return report_error(report.error());
  return finish(output.json ? json_of(*report) : text_of(*report), ExitCode::done);
}

}  // namespace kernwright::tool
