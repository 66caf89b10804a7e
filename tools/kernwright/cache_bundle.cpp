#include "cache_bundle.hpp"

#include <fmt/format.h>

#include <memory>

#include "bundle_report.hpp"
#include "cache_stores.hpp"
#include "platform/posix_calls.hpp"
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

Result<PackReport> pack(const CachePackOptions& options) {
  auto targets = parse_targets(options.targets);
  if (!targets) return fail(std::move(targets.error()));
  const auto stores = open_writable_store(options);
  if (!stores) return fail(Error(stores.error()));
  const std::shared_ptr<FileSystem> files = FileSystem::posix();
  const auto& folder = stores->writable->folder();
  auto packed = support::pack_bundle({*files, folder, std::move(*targets)}, options.file, std::make_shared<PosixCalls>());
  if (!packed) return fail(std::move(packed.error()));
  return PackReport{folder.string(), options.file, std::move(*packed)};
}

Result<UnpackReport> unpack(const CacheUnpackOptions& options) {
  const auto stores = open_writable_store(options);
  if (!stores) return fail(Error(stores.error()));
  const std::shared_ptr<FileSystem> files = FileSystem::posix();
  auto unpacked = support::unpack_bundle(options.file, *stores->writable, *files, std::make_shared<PosixCalls>());
  if (!unpacked) return fail(std::move(unpacked.error()));
  return UnpackReport{stores->writable->folder().string(), options.file, std::move(*unpacked)};
}

}  // namespace

ExitCode cache_pack(const CachePackOptions& options) {
  const Result<PackReport> report = pack(options);
  if (!report) return report_error(report.error());
  const bool whole = report->packed.left_out.empty();
  return finish(options.output.json ? json_of(*report) : text_of(*report), whole ? ExitCode::done : ExitCode::wrong);
}

ExitCode cache_unpack(const CacheUnpackOptions& options) {
  const Result<UnpackReport> report = unpack(options);
  if (!report) return report_error(report.error());
  return finish(options.output.json ? json_of(*report) : text_of(*report), ExitCode::done);
}

}  // namespace kernwright::tool
