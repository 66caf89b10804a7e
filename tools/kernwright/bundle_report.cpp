#include "bundle_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "json_document.hpp"
#include "support/format.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

using support::format_bytes;

/// "nvrtc 13.0, record <32 hex digits>" for each.
std::vector<std::string> compiler_lines(const support::BundleManifest& contents) {
  std::vector<std::string> lines;
  for (const auto& [record, name, version] : contents.compilers) {
    lines.push_back(fmt::format("{} {}, record {}", name, version.substr(0, version.find('\n')), record));
  }
  return lines;
}

}  // namespace

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

std::string json_of(const PackReport& report) {
  Json left_out = Json::array();
  for (const support::LeftOut& each : report.packed.left_out) left_out.push_back({{"name", each.name}, {"problem", each.problem}});
  const support::BundleManifest& contents = report.packed.contents;
  return document({{"store", report.store},
                   {"file", report.file},
                   {"size", report.packed.size.count},
                   {"entries", contents.entries},
                   {"fits", contents.fits},
                   {"targets", contents.targets},
                   {"compilers", compiler_lines(contents)},
                   {"left_out", std::move(left_out)}});
}

std::string json_of(const UnpackReport& report) {
  const support::Unpacked& unpacked = report.unpacked;
  const auto counts = [&](std::size_t support::MergeCount::*count) {
    return Json{{"entries", unpacked.entries.*count}, {"fits", unpacked.fits.*count}, {"compilers", unpacked.compilers.*count}};
  };
  return document({{"store", report.store},
                   {"file", report.file},
                   {"added", counts(&support::MergeCount::added)},
                   {"present", counts(&support::MergeCount::present)},
                   {"replaced", counts(&support::MergeCount::replaced)},
                   {"targets", unpacked.contents.targets},
                   {"compilers", compiler_lines(unpacked.contents)}});
}

}  // namespace kernwright::tool
