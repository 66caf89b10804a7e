// What people see of the cache commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "cache_report.hpp"
#include "store/compiler_record.hpp"
#include "support/duration.hpp"
#include "support/format.hpp"
#include "support/text_table.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

using support::format_age;
using support::format_bytes;
using support::format_milliseconds;
using support::printable;
using support::TextTable;

constexpr std::string_view kNone = "-";

std::string store_line(const std::string& folder, bool writable) {
  return fmt::format("store {} ({})", printable(folder), writable ? "writable" : "read-only");
}

/// A line of text that may be anybody's.
std::string field(std::string_view label, std::string_view text) {
  return line(label, printable(text));
}

std::string ago(std::int64_t now, std::int64_t then) {
  return format_age(now - then) + " ago";
}

std::string spills_text(const ResourceUse& use) {
  const Bytes all = use.spill_stores + use.spill_loads;
  return all.count == 0 ? std::string(kNone) : format_bytes(all);
}

Bytes dynamic_shared(const Plan& plan) {
  return {static_cast<std::uint64_t>(std::max(plan.dynamic_shared, 0))};
}

/// What the rows below it share.
std::string group_text(const BuildRequest& request) {
  const std::string constants = request.specialisation.text();
  return fmt::format("{}  {}{}{}", request.template_name, constants, constants.empty() ? "" : "  ", request.target.name());
}

std::vector<std::string> entry_row(const CacheEntryReport& entry, std::int64_t now) {
  const Artifact& artifact = *entry.artifact;
  const std::string age = format_age(now - entry.modified_seconds);
  const std::string used = format_age(now - entry.used_seconds);
  const std::string compile = format_milliseconds(artifact.compile_seconds * 1000);
  if (entry.is_plans()) {
    return {entry.key,
            fmt::format("plans of {}", counted(artifact.plans.size(), "tile", "tiles")),
            format_bytes(entry.size),
            age,
            used,
            std::string(kNone),
            std::string(kNone),
            std::string(kNone),
            compile};
  }
  const bool host = artifact.request.target.is_host();
  return {entry.key,
          artifact.request.tiles.front().text(),
          format_bytes(entry.size),
          age,
          used,
          host ? std::string(kNone) : std::to_string(artifact.resources.registers),
          format_bytes(artifact.resources.static_shared + dynamic_shared(artifact.plans.front())),
          spills_text(artifact.resources),
          compile};
}

/// Groups by template, constants and target; within one by tile.
std::string entries_text(const CacheStoreReport& store, std::int64_t now) {
  using Align = TextTable::Align;
  TextTable table({{"key", Align::left},
                   {"tile", Align::left},
                   {"size", Align::right},
                   {"age", Align::right},
                   {"used", Align::right},
                   {"regs", Align::right},
                   {"shared", Align::right},
                   {"spills", Align::right},
                   {"compile", Align::right}},
                  2);
  std::map<std::string, std::vector<const CacheEntryReport*>> groups;
  for (const CacheEntryReport& entry : store.entries) {
    if (entry.artifact != nullptr) groups[group_text(entry.artifact->request)].push_back(&entry);
  }
  for (auto& [heading, entries] : groups) {
    std::ranges::sort(entries, {}, [](const CacheEntryReport* entry) { return entry->artifact->request.tiles; });
    table.heading(heading);
    for (const CacheEntryReport* entry : entries) table.row(entry_row(*entry, now));
  }
  return table.text();
}

std::string bad_text(const CacheStoreReport& store) {
  std::string text;
  for (const CacheEntryReport& entry : store.entries) {
    if (!entry.problem.empty()) text += fmt::format("BAD {}  {}  {}\n", entry.key, format_bytes(entry.size), printable(entry.problem));
  }
  return text;
}

std::string total_text(const CacheStoreReport& store) {
  const std::size_t bad = store.bad();
  return fmt::format("{}, {}{}{}; {}; {}\n", counted(store.entries.size(), "entry", "entries"), format_bytes(store.size()),
                     store.writable && store.limit.count > 0 ? fmt::format(" (limit {})", format_bytes(store.limit)) : "",
                     bad > 0 ? fmt::format(", {} bad", bad) : "", counted(store.fits.size(), "fit", "fits"),
                     counted(store.compilers.size(), "compiler", "compilers"));
}

std::string fits_text(const CacheStoreReport& store) {
  std::string text;
  for (const auto& [key, fit] : store.fits) {
    text +=
        printable(fmt::format("fit {}  {}  {}  {} on {}", key, fit.template_name, fit.specialisation, fit.target, fit.device_name)) + "\n";
    text += printable(fmt::format("  {} asked, {} fitted: {}", fit.asked.text(), fit.fitted.text(), fit.reason)) + "\n";
  }
  return text;
}

std::string compilers_text(const CacheStoreReport& store) {
  std::string text;
  for (const CacheCompilerReport& compiler : store.compilers) {
    text += fmt::format("compiler {}: {}\n", printable(compiler_label(compiler.identity)), counted(compiler.entries, "entry", "entries"));
  }
  return text;
}

std::string store_text(const CacheStoreReport& store, std::int64_t now) {
  const std::string head = store_line(store.folder, store.writable);
  if (!store.problem.empty()) return fmt::format("{}: cannot be read: {}\n", head, printable(store.problem));
  if (!store.exists) return fmt::format("{}: not there{}\n", head, store.writable ? " yet; it is made when something is first kept" : "");
  return head + "\n" + entries_text(store, now) + bad_text(store) + total_text(store) + fits_text(store) + compilers_text(store);
}

std::string plans_text(const Artifact& artifact) {
  using Align = TextTable::Align;
  TextTable table({{"tile", Align::left},
                   {"threads", Align::right},
                   {"dynamic shared", Align::right},
                   {"rows a block", Align::right},
                   {"cluster", Align::right}},
                  11);
  for (std::size_t i = 0; i < artifact.plans.size(); ++i) {
    const Plan& plan = artifact.plans[i];
    if (!plan.legal()) {
      table.row({artifact.request.tiles[i].text(), "not legal", "", "", ""});
      continue;
    }
    table.row({artifact.request.tiles[i].text(), std::to_string(plan.threads), format_bytes(dynamic_shared(plan)),
               std::to_string(plan.rows_per_block), std::to_string(plan.cluster)});
  }
  return field("plans", counted(artifact.plans.size(), "tile", "tiles")) + table.text();
}

std::string resources_text(const Artifact& artifact) {
  const ResourceUse& use = artifact.resources;
  if (artifact.request.target.is_host()) return fmt::format("{} static shared memory", format_bytes(use.static_shared));
  return fmt::format("{} registers, {} static shared memory, {} stack, spills {} stored {} loaded", use.registers,
                     format_bytes(use.static_shared), format_bytes(use.stack_frame), format_bytes(use.spill_stores),
                     format_bytes(use.spill_loads));
}

std::string compiler_lines(const CompilerIdentity& compiler) {
  std::string text = field("compiler", compiler_label(compiler));
  for (const auto& [name, id] : compiler.components) text += field("", fmt::format("{}: {}", name, id.substr(0, id.find('\n'))));
  return text;
}

std::string sources_text(const Artifact& artifact) {
  std::string text;
  for (const SourceFile& source : artifact.request.sources) {
    text += field(text.empty() ? "sources" : "", fmt::format("{}  {}", source.name, format_bytes({source.content.size()})));
  }
  return text;
}

std::string artifact_text(const CacheEntryReport& entry) {
  const Artifact& artifact = *entry.artifact;
  const BuildRequest& request = artifact.request;
  std::string text = field("template", request.template_name) + field("constants", request.specialisation.text());
  if (!entry.is_plans()) text += field("tile", request.tiles.front().text());
  text += field("target", request.target.name());
  if (entry.is_plans()) {
    text += plans_text(artifact);
  } else {
    const Plan& plan = artifact.plans.front();
    text += field("kernel", fmt::format("{}, {} threads, {} a block, {} dynamic shared memory, parameters of {} bytes", request.entry,
                                        plan.threads, counted(static_cast<std::uint64_t>(std::max(plan.rows_per_block, 0)), "row", "rows"),
                                        format_bytes(dynamic_shared(plan)), plan.params_bytes));
    text += field("resources", resources_text(artifact));
  }
  text += field("compiled", fmt::format("in {}{}", format_milliseconds(artifact.compile_seconds * 1000),
                                        entry.is_plans() ? "" : fmt::format(", {} of binary", format_bytes(entry.binary))));
  if (!request.options.empty()) text += field("options", fmt::format("{}", fmt::join(request.options, " ")));
  text += compiler_lines(artifact.compiler) + sources_text(artifact);
  return text + field("log", artifact.log.empty() ? "empty" : fmt::format("{}; --log prints it", format_bytes({artifact.log.size()})));
}

std::string finding_text(const Finding& finding) {
  const std::string_view mark = is_bad(finding.fault) ? "BAD" : "note";
  const bool entry = finding.fault == Fault::bad_entry || finding.fault == Fault::unlisted_compiler;
  return printable(fmt::format("{} {}: {}{}", mark, entry ? finding.key : finding.path.string(),
                               entry ? "" : fmt::format("{}: ", to_string(finding.fault)), finding.problem)) +
         (finding.fault == Fault::leftover ? fmt::format(", {} ago", format_age(finding.age_seconds)) : "") + "\n";
}

std::string verify_store_text(const CacheVerifyStoreReport& store) {
  const Verification& verification = store.verification;
  std::string text = store_line(store.folder, store.writable) + "\n";
  for (const Finding& finding : verification.findings) text += finding_text(finding);
  for (const std::string& path : store.removed) text += fmt::format("removed {}\n", printable(path));
  const std::size_t bad = verification.bad();
  const std::size_t notes = verification.findings.size() - bad;
  text += fmt::format("{}, {} and {} verified: {} bad{}\n", counted(verification.entries, "entry", "entries"),
                      counted(verification.fits, "fit", "fits"), counted(verification.compilers, "compiler", "compilers"), bad,
                      notes == 0 ? "" : ", " + counted(notes, "note", "notes"));
  return text;
}

std::string pruned_text(const CachePruneReport& report, std::string_view done) {
  if (report.entries.empty()) return {};
  TextTable table({{"key", TextTable::Align::left},
                   {"size", TextTable::Align::right},
                   {"why", TextTable::Align::left},
                   {"entry", TextTable::Align::left}},
                  2);
  for (const bool in_use : {false, true}) {
    bool first = true;
    for (const auto& [evicted, reason, name] : report.entries) {
      if (evicted.in_use != in_use) continue;
      if (std::exchange(first, false)) table.heading(in_use ? "stay, since they are in use:" : fmt::format("{}:", done));
      table.row({evicted.key, format_bytes(evicted.allocated), reason, name});
    }
  }
  return table.text();
}

std::string left_alone_text(const std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& folder : folders) text += fmt::format("{}: left alone\n", store_line(folder, false));
  return text;
}

}  // namespace

std::string text_of(const CacheReport& report) {
  std::string text;
  for (const CacheStoreReport& store : report.stores) {
    if (!text.empty()) text += "\n";
    text += store_text(store, report.now_seconds);
  }
  return text;
}

std::string text_of(const CacheShowReport& report) {
  const CacheEntryReport& entry = report.entry;
  std::string text = field("key", entry.key) + field("store", entry.store);
  for (const std::string& folder : report.also_in) text += field("", fmt::format("also in {}, which is asked later", folder));
  text += field("size", fmt::format("{}, {} on the disk", format_bytes(entry.size), format_bytes(entry.allocated)));
  text += field("written", fmt::format("{}, {}", time_text(entry.modified_seconds), ago(report.now_seconds, entry.modified_seconds)));
  text += field("last used", fmt::format("{}, {}", time_text(entry.used_seconds), ago(report.now_seconds, entry.used_seconds)));
  text += entry.artifact == nullptr ? field("BAD", entry.problem) : artifact_text(entry);
  if (!report.binary_file.empty()) text += field("binary", "written to " + report.binary_file);
  return text;
}

std::string text_of(const CacheVerifyReport& report) {
  std::string text;
  for (const CacheVerifyStoreReport& store : report.stores) {
    if (!text.empty()) text += "\n";
    text += verify_store_text(store);
  }
  if (report.bad() == 0) return text;
  return text + "A bad entry counts as a miss and is replaced when it is next needed; --remove-bad removes those of the writable store.\n";
}

std::string text_of(const CachePruneReport& report) {
  const std::string_view done = report.dry_run ? "would remove" : "removed";
  std::string text = store_line(report.store, true) + "\n";
  text += pruned_text(report, done);
  for (const std::string& fit : report.fits) text += fmt::format("{} fit {}\n", done, fit);
  for (const std::string& compiler : report.compilers) text += fmt::format("{} compiler {}\n", done, printable(compiler));
  for (const Leftover& each : report.leftovers) {
    text += fmt::format("{} leftover {}, {} old\n", done, printable(each.path.string()), format_age(each.age_seconds));
  }
  for (const std::string& each : report.notes) text += fmt::format("note: {}\n", printable(each));
  text +=
      fmt::format("{} {}, {}, {} and {}{}; {}, {}, {}\n", done, counted(report.removed, "entry", "entries"), format_bytes(report.bytes),
                  counted(report.fits.size(), "fit", "fits"), counted(report.leftovers.size(), "leftover", "leftovers"),
                  report.in_use == 0 ? "" : fmt::format("; {} stay because they are in use", report.in_use),
                  counted(report.left_count, "entry", "entries"), format_bytes(report.left), report.dry_run ? "would be left" : "are left");
  return text + left_alone_text(report.left_alone);
}

std::string text_of(const CacheClearReport& report) {
  return fmt::format("removed {} and {}, {}, from {}\n", counted(report.cleared.entries, "entry", "entries"),
                     counted(report.cleared.fits, "fit", "fits"), format_bytes(report.cleared.bytes), printable(report.store)) +
         left_alone_text(report.left_alone);
}

}  // namespace kernwright::tool
