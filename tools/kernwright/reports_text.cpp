// What people see.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "reports.hpp"
#include "support/format.hpp"

namespace kernwright::tool {
namespace {

using support::format_bytes;
using support::format_milliseconds;

std::string line(std::string_view label, std::string_view text) {
  return fmt::format("{:<11}{}\n", label, text);
}
std::string more(std::string_view text) {
  return line("", text);
}

std::string cache_text(const PrepareReport& report) {
  switch (report.cache) {
    case CacheSource::built: return fmt::format("compiled in {}", format_milliseconds(report.compile_ms));
    case CacheSource::store: return "hit in the store";
    case CacheSource::remote: return "fetched from the remote cache";
    case CacheSource::memory: return "hit in memory";
  }
  return {};
}

std::string device_text(const DeviceInfo& device) {
  if (device.id.backend == BackendKind::host) return "host (Kernwright's interpreter)";
  return fmt::format("{} {}, capability {}.{}", to_string(device.id), device.name, device.capability_major, device.capability_minor);
}

std::string check_text(const RunReport& report) {
  const support::SparseMlaCheck& check = *report.check;
  const auto at = [](const support::SparseMlaCheck::Row& row) {
    return row.token < 0 ? std::string() : fmt::format(" (token {}, head {})", row.token, row.head);
  };
  std::string text = line("check", fmt::format("{}: {} of {} tokens, {} rows against the CPU reference", check.passed ? "passed" : "FAILED",
                                               report.checked_tokens, report.tokens, check.rows));
  text += more(fmt::format("worst row cosine {:.8f}{}, worst row relative L2 {:.2e}{}", check.worst_row_cosine,
                           at(check.worst_row_cosine_at), check.worst_row_rel_l2, at(check.worst_row_rel_l2_at)));
  text += more(fmt::format("{} elements beyond the bound, the worst at {:.3f} of it{}; lse and max_logits off by at most {:.1e}{}",
                           check.bound_violations, check.worst_bound_ratio, at(check.worst_bound_at), check.lse_max_abs,
                           at(check.lse_worst_at)));
  if (!check.passed) text += more(check.first_failure);
  return text;
}

std::string time_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string resources_text(const CacheEntryReport& entry) {
  const ResourceUse& use = entry.resources;
  return fmt::format("{} registers, {} static shared, {} stack, spills {} stored {} loaded", use.registers, format_bytes(use.static_shared),
                     format_bytes(use.stack_frame), format_bytes(use.spill_stores), format_bytes(use.spill_loads));
}

/// A part that works, or that it does not; what is wrong with it stands once, in the list of problems.
std::string part(std::string_view label, std::string_view good, std::string_view problem) {
  return line(label, problem.empty() ? good : "does not work, see below");
}

}  // namespace

std::int64_t CacheReport::bad() const {
  return std::ranges::count_if(entries, [](const CacheEntryReport& entry) { return !entry.problem.empty(); });
}

std::vector<std::string> compiler_lines(const support::BundleManifest& contents) {
  std::vector<std::string> lines;
  for (const auto& [record, name, version] : contents.compilers) {
    lines.push_back(fmt::format("{} {}, record {}", name, version.substr(0, version.find('\n')), record));
  }
  return lines;
}

std::string text_of(const RunReport& report) {
  std::string text = line("input", fmt::format("{}: {} tokens, {} heads, {} KV rows, K = {}, d_qk = {}", report.input, report.tokens,
                                               report.heads, report.kv_rows, report.topk, report.d_qk));
  text += line("device", device_text(report.device));
  text += line("target", report.device.target.name());
  text += line("union", fmt::format("{} (asked: {}){}{}", report.union_used == 0 ? "off" : std::to_string(report.union_used),
                                    report.union_asked ? std::to_string(*report.union_asked) : "auto",
                                    report.union_reason.empty() ? "" : ": ", report.union_reason));
  if (report.deterministic) text += line("mode", "deterministic: a token's result depends on its own inputs only");
  if (report.workspace.count > 0) text += line("workspace", format_bytes(report.workspace));
  for (const LaunchReport& launch : report.launches) {
    const PrepareReport& prepared = launch.prepared;
    text += line("launch", fmt::format("{}  {}", prepared.template_name, prepared.specialisation.text()));
    const bool same = prepared.tile_asked == prepared.tile_fitted;
    text += more(
        same ? fmt::format("tile {} as asked, {}", prepared.tile_asked.text(), cache_text(prepared))
             : fmt::format("tile {} asked, {} fitted, {}", prepared.tile_asked.text(), prepared.tile_fitted.text(), cache_text(prepared)));
    if (!prepared.fit_reason.empty()) {
      text += more(fmt::format("{}{}", prepared.fit_recorded ? "as recorded earlier: " : "because ", prepared.fit_reason));
    }
    text += more(fmt::format("{} × {} × {} blocks of {} threads, {} dynamic shared memory: {}", launch.grid.x, launch.grid.y, launch.grid.z,
                             launch.threads, format_bytes({static_cast<std::uint64_t>(launch.dynamic_shared)}),
                             format_milliseconds(launch.median_ms)));
  }
  text +=
      line("total", fmt::format("{}, median of {} after {} ({})", format_milliseconds(report.total_ms), report.repetitions, report.warm_ups,
                                report.device.id.backend == BackendKind::host ? "the interpreter's time, not a GPU's" : "events"));
  if (report.check) text += check_text(report);
  if (!report.output.empty()) text += line("output", report.output);
  return text;
}

std::string text_of(const WarmReport& report) {
  const WarmSummary& summary = report.summary;
  std::string text;
  std::map<std::string, int> skipped;  // the same tile is too large for many specialisations, in the same words
  for (const WarmedItem& item : summary.items) {
    if (item.outcome == WarmOutcome::failed) {
      text += fmt::format("failed   {} {} {} {}\n         {}\n", item.target.name(), item.template_name, item.specialisation.text(),
                          item.tile.variant.empty() ? "" : item.tile.text(), item.reason);
    } else if (item.outcome == WarmOutcome::skipped) {
      ++skipped[fmt::format("{} {} {}: {}", item.target.name(), item.template_name, item.tile.text(), item.reason)];
    }
  }
  for (const auto& [what, count] : skipped)
    text += fmt::format("skipped  {}{}\n", what, count > 1 ? fmt::format(" ({} kernels)", count) : "");
  text +=
      fmt::format("{}\n{} kernels: {} built, {} hit, {} skipped (above the target's limits), {} failed; {} plan tables: {} built, {} hit\n",
                  report.list, summary.items.size() + summary.not_begun, summary.built, summary.hit, summary.skipped, summary.failed,
                  summary.plans_built + summary.plans_hit, summary.plans_built, summary.plans_hit);
  if (report.signal != 0) {
    text += fmt::format("interrupted: {} kernels were not begun; the same command goes on from here\n", summary.not_begun);
  }
  text += fmt::format("in {}, {} at once ({}), each core {:.0f}% busy\n", format_milliseconds(summary.seconds * 1000), summary.jobs,
                      report.jobs_reason, report.busy() * 100);
  text += fmt::format("store: {}\n", report.store);
  if (summary.not_stored > 0) text += fmt::format("The store took {} of the artifacts not: see the warning for why.\n", summary.not_stored);
  return text;
}

std::string list_text(const CacheReport& report) {
  std::string text = fmt::format("store: {}\n", report.store);
  std::uint64_t bytes = 0;
  for (const CacheEntryReport& entry : report.entries) {
    bytes += entry.size.count;
    if (!entry.problem.empty()) {
      text += fmt::format("{}  {:>9}  BAD: {}\n", entry.key, format_bytes(entry.size), entry.problem);
      continue;
    }
    text += fmt::format("{}  {:>9}  {}  {:<8} {} {} {}\n", entry.key, format_bytes(entry.size), time_text(entry.modified_seconds),
                        entry.target, entry.template_name, entry.specialisation, entry.kind == "plans" ? "(plans)" : entry.tile);
  }
  for (const CacheFitReport& fit : report.fits) {
    text += fmt::format("fit {}  {} {} on {}: {} asked, {} fitted: {}\n", fit.key, fit.template_name, fit.specialisation, fit.device,
                        fit.tile_asked, fit.tile_fitted, fit.reason);
  }
  for (const std::string& compiler : report.compilers) text += fmt::format("compiler {}\n", compiler);
  text += fmt::format("{} entries, {}, {} fits\n", report.entries.size(), format_bytes({bytes}), report.fits.size());
  return text;
}

std::string verify_text(const CacheReport& report) {
  std::string text = fmt::format("store: {}\n", report.store);
  for (const CacheEntryReport& entry : report.entries) {
    if (!entry.problem.empty()) text += fmt::format("BAD {}: {}\n", entry.key, entry.problem);
  }
  const std::int64_t bad = report.bad();
  text += fmt::format("{} entries verified, {} bad{}\n", report.entries.size(), bad,
                      bad == 0 ? "" : "; a bad entry counts as a miss and is replaced when it is next needed");
  return text;
}

std::string text_of(const CacheEntryReport& entry) {
  std::string text =
      line("key", entry.key) + line("size", fmt::format("{}, written {}", format_bytes(entry.size), time_text(entry.modified_seconds)));
  if (!entry.problem.empty()) return text + line("BAD", entry.problem);
  text += line("template", entry.template_name) + line("kind", entry.kind) + line("constants", entry.specialisation) +
          line("tile", entry.tile) + line("target", entry.target) + line("compiler", entry.compiler);
  text +=
      line("compiled", fmt::format("in {}, {} of binary", format_milliseconds(entry.compile_seconds * 1000), format_bytes(entry.binary)));
  text += line("resources", resources_text(entry));
  text += line("sources", fmt::format("{}", fmt::join(entry.sources, ", ")));
  text += line("log", entry.log.empty() ? "empty" : "");
  if (!entry.log.empty()) text += entry.log + (entry.log.back() == '\n' ? "" : "\n");
  return text;
}

std::string text_of(const ClearReport& report) {
  return fmt::format("removed {} entries and {} fits, {}, from {}\n", report.entries, report.fits, format_bytes(report.bytes),
                     report.store);
}

std::string text_of(const PackReport& report) {
  const support::BundleManifest& contents = report.packed.contents;
  std::string text = fmt::format("packed {} entries and {} fits for {} into {}, {}\n", contents.entries, contents.fits,
                                 fmt::join(contents.targets, ", "), report.file, format_bytes(report.packed.size));
  for (const std::string& compiler : compiler_lines(contents)) text += fmt::format("compiler {}\n", compiler);
  for (const support::LeftOut& left_out : report.packed.left_out) {
    text += fmt::format("LEFT OUT {}: {}\n", left_out.name, left_out.problem);
  }
  return text + fmt::format("store: {}\n", report.store);
}

std::string text_of(const UnpackReport& report) {
  const support::Unpacked& unpacked = report.unpacked;
  std::string text = fmt::format("unpacked {}, for {}\n", report.file, fmt::join(unpacked.contents.targets, ", "));
  for (const auto& [what, count] :
       {std::pair{"entries", &unpacked.entries}, std::pair{"fits", &unpacked.fits}, std::pair{"compilers", &unpacked.compilers}}) {
    text += line(what, fmt::format("{} added, {} present already, {} in place of bad ones", count->added, count->present, count->replaced));
  }
  for (const std::string& compiler : compiler_lines(unpacked.contents)) text += fmt::format("compiler {}\n", compiler);
  return text + fmt::format("store: {}\n", report.store);
}

std::string text_of(const DoctorReport& report) {
  std::string text = line("version", report.version);
  text += part("driver", fmt::format("{}, CUDA {}", report.driver_path, report.driver_version), report.driver_problem);
  text += part("NVRTC", fmt::format("{}, CUDA {} (found by {})", report.nvrtc_path, report.nvrtc_version, report.nvrtc_found_by),
               report.nvrtc_problem);
  if (report.nvrtc_problem.empty()) {
    text += part("builtins", report.builtins_path, report.builtins_problem);
    text += line("targets", fmt::format("{}", fmt::join(report.nvrtc_targets, " ")));
  }
  for (const DeviceInfo& device : report.devices) {
    text += line("device", fmt::format("{}, target {}, {} SMs, {}, {} shared memory a block", device_text(device), device.target.name(),
                                       device.multiprocessors, format_bytes(device.memory), format_bytes(device.shared_memory_per_block)));
  }
  if (report.devices.empty()) text += line("device", "no CUDA device");
  text += part("host",
               fmt::format("{}, {} workers, {} shared memory a block", report.host_compiler, report.host.multiprocessors,
                           format_bytes(report.host.shared_memory_per_block)),
               report.host_problem);
  const StoreDiagnosis& store = report.store;
  text += line("store", store.folder.empty() ? "memory only"
                                             : fmt::format("{} ({}, {}, {} free)", store.folder, store.exists ? "exists" : "not there yet",
                                                           store.writable ? "writable" : "not writable", format_bytes(store.free)));
  for (const DoctorReport::Problem& problem : report.problems) {
    text += fmt::format("\n{}: {}\n  {}\n", problem.stops_a_run ? "Stops every run" : "Note", problem.what, problem.remedy);
  }
  text += fmt::format("\nA run is possible on {}.\n", report.cuda_works && report.host_works ? "CUDA and on host"
                                                      : report.cuda_works                    ? "CUDA"
                                                      : report.host_works                    ? "host (the interpreter), not on CUDA"
                                                                                             : "no target");
  return text;
}

}  // namespace kernwright::tool
