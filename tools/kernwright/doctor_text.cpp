// What people see of doctor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "doctor_report.hpp"
#include "store/compiler_record.hpp"
#include "support/format.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

using support::format_bytes;

/// A part that works, or that it does not; what is wrong with it stands once, in the list of problems.
std::string part(std::string_view label, std::string_view good, std::string_view problem) {
  return line(label, problem.empty() ? good : "does not work, see below");
}

std::string folder_text(const StoreDiagnosis& store) {
  std::string text = store.folder;
  if (!store.link_to.empty()) text += fmt::format(" → {}", store.link_to);
  if (store.read_only) return fmt::format("{}: read-only{}", text, store.exists ? "" : ", not there");
  const std::string_view state = !store.exists ? "not there yet" : store.probed && store.writable ? "a write works" : "";
  return fmt::format("{}: {}{}{}", text, store.writable ? "writable" : "not writable", state.empty() ? "" : ", ", state);
}

std::string content_text(const StoreDiagnosis& store) {
  std::string text = fmt::format("{}, {}", counted(store.entries, "entry", "entries"), format_bytes(store.used));
  if (store.limit.count > 0) text += fmt::format(" of {}", format_bytes(store.limit));
  if (store.bad > 0) text += fmt::format(", {} bad", store.bad);
  return text + fmt::format("; {}", counted(store.fits, "fit", "fits"));
}

std::string place_text(const StoreDiagnosis& store) {
  std::string text = fmt::format("{}, {} free", store.file_system, format_bytes(store.free));
  if (store.free_inodes) text += fmt::format(", room for {} files", *store.free_inodes);
  if (!store.exists) return text;
  return text + fmt::format("; owner {}{}, mode {:04o}{}", store.owner, store.own ? " (this user)" : "", store.mode,
                            store.shared ? ", shared with other users" : "");
}

std::string locks_text(const StoreDiagnosis& store) {
  std::string text;
  if (store.locks_work) text = *store.locks_work ? "locks work" : "no locks, see below";
  if (store.lock_holders.empty()) return text;
  return fmt::format("{}{}builds under way: {}", text, text.empty() ? "" : "; ", fmt::join(store.lock_holders, ", "));
}

std::string targets_text(const StoreDiagnosis& store) {
  std::vector<std::string> parts;
  for (const auto& [target, count] : store.by_target) parts.push_back(fmt::format("{} {}", target, count));
  return fmt::format("entries by target: {}", fmt::join(parts, ", "));
}

std::string store_text(const StoreDiagnosis& store) {
  std::string text = line("store", folder_text(store));
  if (!store.file_system.empty()) text += more(place_text(store));
  if (!store.exists) return text;
  text += more(content_text(store));
  if (const std::string locks = locks_text(store); !locks.empty()) text += more(locks);
  if (!store.by_target.empty()) text += more(targets_text(store));
  for (const auto& each : store.by_compiler) {
    text += more(fmt::format("by {}: {}{}", compiler_label(each.compiler), counted(each.entries, "entry", "entries"),
                             each.present ? ", the compiler that is here" : ""));
  }
  return text;
}

std::string sealed_text(const DoctorReport& report) {
  std::string text = line("sealed", report.sealed ? "yes: nothing is compiled" : "no; if it were (KERNWRIGHT_SEALED=1):");
  for (const SealedStart& start : report.sealed_starts) {
    text += more(start.compilers.empty() ? fmt::format("{}: every kernel a miss: {}", start.family, start.problem)
                                         : fmt::format("{}: entries of {}", start.family, fmt::join(start.compilers, ", ")));
  }
  return text;
}

std::string rows_text(const TemplateRows& rows) {
  std::vector<std::string> kinds;
  if (rows.tiles > 0) kinds.push_back(counted(rows.tiles, "tile", "tiles"));
  if (rows.preferences > 0) kinds.push_back(counted(rows.preferences, "preference", "preferences"));
  std::string text = fmt::format("{}: {}; ", rows.template_name, fmt::join(kinds, ", "));
  if (!rows.known) return text + "no such template is built in: they count where a program registers one";
  std::vector<std::string> parts;
  const auto add = [&](Closeness closeness, std::string_view form) {
    if (rows.holding(closeness) > 0) parts.push_back(fmt::format("{} {}", rows.holding(closeness), form));
  };
  add(Closeness::device, "for a device here");
  add(Closeness::target, "for a target here");
  add(Closeness::any, "for any (default)");
  add(Closeness::none, "for other devices");
  if (rows.stale > 0) parts.push_back(fmt::format("{} stale, see below", rows.stale));
  if (!rows.wrong.empty()) parts.push_back(fmt::format("{} wrong, see below", rows.wrong.size()));
  return text + fmt::format("{}", fmt::join(parts, ", "));
}

/// A line a table and template. A built-in table without rows is not worth one.
std::string tuning_text(const TuningDiagnosis& tuning) {
  std::vector<std::string> lines;
  if (!tuning.failure.empty()) lines.emplace_back("cannot be read, see below");
  for (const TuningDiagnosis::Table& table : tuning.tables) {
    const std::string name = (table.built_in ? "built-in " : "") + table.name;
    if (table.templates.empty() && !table.built_in) lines.push_back(name + ": no rows");
    for (const TemplateRows& rows : table.templates) lines.push_back(fmt::format("{}: {}", name, rows_text(rows)));
  }
  if (tuning.failure.empty()) {
    for (const auto& [device, measured] : tuning.devices) {
      if (measured == 0) lines.push_back(fmt::format("{}: nothing was measured for it, default tiles run", device_text(device)));
    }
  }
  std::string text;
  for (const std::string& each : lines) text += text.empty() ? line("tuning", each) : more(each);
  return text;
}

}  // namespace

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
  for (const StoreDiagnosis& store : report.stores) text += store_text(store);
  if (report.stores.empty()) text += line("store", "memory only");
  text += sealed_text(report);
  text += tuning_text(report.tuning);
  for (const auto& [problem, stops_a_run] : report.problems) {
    text += fmt::format("\n{}: {}\n  {}\n", stops_a_run ? "Stops every run" : "Note", problem.what, problem.remedy);
  }
  text += fmt::format("\nA run is possible on {}.\n", report.cuda_works && report.host_works ? "CUDA and on host"
                                                      : report.cuda_works                    ? "CUDA"
                                                      : report.host_works                    ? "host (the interpreter), not on CUDA"
                                                                                             : "no target");
  return text;
}

}  // namespace kernwright::tool
