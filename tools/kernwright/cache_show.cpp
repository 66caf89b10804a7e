// kernwright cache show
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/ptx.hpp"
#include "cache_report.hpp"
#include "cache_stores.hpp"
#include "disassembler.hpp"
#include "platform/clock.hpp"
#include "prepare/runtime_state.hpp"
#include "store/compiler_record.hpp"

namespace kernwright::tool {
namespace {

struct Found {
  Store* store = nullptr;  ///< The first one that holds it.
  std::string key;
  std::vector<std::string> also_in;
};

/// The one key that begins with these digits, whichever stores hold it.
Result<Found> find(const CacheStores& stores, const CacheShowOptions& options) {
  const std::string& digits = options.key;
  Found found;
  std::vector<std::string> folders;
  for (const auto& store : stores.all) {
    const auto keys = store->keys(digits);
    folders.push_back(store->folder().string());
    if (!keys && keys.error().code == ErrorCode::invalid_argument) return fail(Error(keys.error()));
    if (!keys) {
      note(options.output, fmt::format("the store {} cannot be read: {}", folders.back(), keys.error().text()));
      continue;
    }
    for (const std::string& key : *keys) {
      if (found.store == nullptr) {
        found = {store.get(), key, {}};
      } else if (found.key == key) {
        found.also_in.push_back(store->folder().string());
      } else {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("several keys begin with {}, two of them are {} and {}; give more digits", digits, found.key, key));
      }
    }
  }
  if (found.store != nullptr) return found;
  return fail(ErrorCode::not_found, fmt::format("no entry's key begins with {}; looked in: {}", digits, fmt::join(folders, ", ")));
}

Result<> check_binary(const Artifact& artifact, std::string_view option) {
  if (!artifact.binary.empty()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: entry {} holds plans, which are numbers without a binary", option, artifact.key.hex()));
}

Result<> check_cuda(const Artifact& artifact, std::string_view option) {
  if (!artifact.request.target.is_host()) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{}: entry {} is for the target host, whose binary is a shared object of this machine's C++ compiler: it has neither "
                  "PTX nor SASS. --source, --log and --binary FILE work",
                  option, artifact.key.hex()));
}

Result<std::string> source_document(const CacheShowOptions& options, const Artifact& artifact) {
  std::vector<SourceFile> sources = artifact.request.sources;
  if (!options.source.empty()) {
    std::erase_if(sources, [&](const SourceFile& each) { return each.name != options.source; });
    if (sources.empty()) {
      std::vector<std::string> names;
      std::ranges::transform(artifact.request.sources, std::back_inserter(names), &SourceFile::name);
      return fail(ErrorCode::not_found, fmt::format("--source {}: entry {} holds no source of that name; it holds {}", options.source,
                                                    artifact.key.hex(), fmt::join(names, ", ")));
    }
  }
  if (options.output.json) return json_of_sources(artifact.key.hex(), sources);
  if (!options.source.empty()) return sources.front().content;
  std::string text;
  for (const SourceFile& each : sources) {
    text += fmt::format("==> {} <==\n{}{}", each.name, each.content, each.content.ends_with('\n') ? "" : "\n");
  }
  return text;
}

Result<std::string> ptx_of(const CacheStores& stores, const CacheShowOptions& options, const Artifact& artifact) {
  if (auto cuda = check_cuda(artifact, "--ptx"); !cuda) return fail(std::move(cuda.error()));
  auto ptx = make_ptx(stores.runtime.state().options, artifact.request);
  if (!ptx) return fail(std::move(ptx.error()).within("making the PTX of entry " + artifact.key.hex() + " again from its stored source"));
  if (ptx->compiler != artifact.compiler) {
    note(options.output, fmt::format("the PTX is made by {}, the entry's binary was made by another compiler, {}",
                                     compiler_label(ptx->compiler), compiler_label(artifact.compiler)));
  }
  return std::move(ptx->text);
}

Result<std::string> sass_of(const CacheStores& stores, const Artifact& artifact) {
  if (auto cuda = check_cuda(artifact, "--sass"); !cuda) return fail(std::move(cuda.error()));
  if (auto binary = check_binary(artifact, "--sass"); !binary) return fail(std::move(binary.error()));
  const auto program = find_disassembler(stores.runtime.state().options);
  if (!program) return fail(Error(program.error()));
  return disassemble(*program, artifact.binary);
}

std::string log_of(const Artifact& artifact) {
  std::string log = artifact.log;
  std::erase(log, '\0');  // NVRTC leaves some between ptxas's reports
  return log;
}

/// One part of the entry.
Result<std::string> part_document(const CacheStores& stores, const CacheShowOptions& options, const Artifact& artifact) {
  using What = CacheShowOptions::What;
  if (options.what == What::source) return source_document(options, artifact);
  const char* const name = options.what == What::ptx ? "ptx" : options.what == What::sass ? "sass" : "log";
  auto text = options.what == What::ptx    ? ptx_of(stores, options, artifact)
              : options.what == What::sass ? sass_of(stores, artifact)
                                           : Result<std::string>(log_of(artifact));
  if (!text || !options.output.json) return text;
  return json_of_part(artifact.key.hex(), name, *text);
}

Result<> write_binary(const CacheShowOptions& options, const Artifact& artifact) {
  if (auto binary = check_binary(artifact, "--binary"); !binary) return binary;
  return FileSystem::posix()->publish(options.binary, artifact.binary);
}

ExitCode show(const CacheStores& stores, const CacheShowOptions& options, const Found& found) {
  const auto listed = found.store->show(found.key);
  if (!listed) return report_error(listed.error());
  const bool whole_needed = options.what != CacheShowOptions::What::summary || !options.binary.empty();
  if (whole_needed && listed->artifact == nullptr) {
    report_error(
        {ErrorCode::malformed, fmt::format("entry {} is bad, so that no part of it can be shown: {}", found.key, listed->problem), {}});
    return ExitCode::wrong;
  }
  if (!options.binary.empty()) {
    if (auto written = write_binary(options, *listed->artifact); !written) return report_error(written.error());
  }
  if (options.what != CacheShowOptions::What::summary) {
    const auto document = part_document(stores, options, *listed->artifact);
    return document ? finish(*document, ExitCode::done) : report_error(document.error());
  }
  const CacheShowReport report{Clock::system()->unix_seconds(), entry_report(*found.store, *listed), found.also_in, options.binary};
  return finish(options.output.json ? json_of(report) : text_of(report), report.entry.problem.empty() ? ExitCode::done : ExitCode::wrong);
}

}  // namespace

ExitCode cache_show(const CacheShowOptions& options) {
  const auto stores = open_stores(options);
  if (!stores) return report_error(stores.error());
  const auto found = find(*stores, options);
  return found ? show(*stores, options, *found) : report_error(found.error());
}

}  // namespace kernwright::tool
