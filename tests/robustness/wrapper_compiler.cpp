#include "robustness/wrapper_compiler.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "fixtures/temporary_folder.hpp"

namespace kernwright::robustness {
namespace {

// The log's lines are short, and each is one write with O_APPEND, so that no two of them mix.
constexpr const char* kScript = R"sh(#!/bin/sh
for object do [ "$object" = --version ] && exec {real} --version; done
log={folder}/log
sum=$({{ find . -type f | LC_ALL=C sort | xargs cat; printf '%s\n' "$@" | grep -v file-prefix-map; }} | cksum | tr -d ' ')
say() {{ echo "$1 $sum $PPID $$" >> "$log"; }}
started() {{ grep -c "^start $sum " "$log"; }}
say start
if [ {meet} -gt 0 ] && [ "$(started)" -ge {meet_from} ]; then
  tries=0
  while [ "$(started)" -lt {meet} ]; do
    tries=$((tries + 1))
    if [ $tries -gt 3000 ]; then say alone; break; fi
    sleep 0.02
  done
fi
if grep -q KW_SIMT_ENTRY kernwright_host_unit.cpp; then hold={hold_kernel}; else hold={hold_plans}; fi
if [ $hold = 1 ] && mkdir {folder}/held 2>/dev/null; then
  say held
  tries=0
  while [ ! -e {folder}/released ] && [ $tries -lt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
fi
if [ {fail} = 1 ]; then echo 'error: told to fail'; say end; exit 1; fi
kept={objects}/$sum.so
if [ -f "$kept" ]; then
  cp "$kept" "$object"
  code=$?
else
  {real} "$@"
  code=$?
  if [ $code = 0 ]; then cp "$object" "$kept.$$" && mv "$kept.$$" "$kept"; fi
fi
say end
exit $code
)sh";

std::string setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

}  // namespace

WrapperCompiler::WrapperCompiler(std::filesystem::path folder, const Manner& manner) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  const std::filesystem::path objects = setting("KERNWRIGHT_ROBUSTNESS_OBJECTS", (folder_ / "objects").c_str());
  std::filesystem::create_directories(objects);
  tests::write_file(folder_ / "log", "");
  tests::write_file(program(), fmt::format(kScript, fmt::arg("real", setting("CXX", "g++")), fmt::arg("folder", folder_.string()),
                                           fmt::arg("objects", objects.string()), fmt::arg("meet", manner.meet),
                                           fmt::arg("meet_from", manner.meet_from), fmt::arg("hold_kernel", manner.hold_kernel ? 1 : 0),
                                           fmt::arg("hold_plans", manner.hold_plans ? 1 : 0), fmt::arg("fail", manner.fail ? 1 : 0)));
  std::filesystem::permissions(program(), std::filesystem::perms::owner_all);
}

void WrapperCompiler::release() const {
  tests::write_file(folder_ / "released", "");
}

std::vector<WrapperCompiler::Run> WrapperCompiler::events(const std::string& kind) const {
  std::vector<Run> found;
  std::istringstream log(tests::read_file(folder_ / "log"));
  std::string event;
  for (Run run; log >> event >> run.what >> run.caller >> run.process;) {
    if (event == kind) found.push_back(run);
  }
  return found;
}

std::map<std::string, int> WrapperCompiler::runs_by_source() const {
  std::map<std::string, int> counts;
  for (const Run& run : runs()) ++counts[run.what];
  return counts;
}

}  // namespace kernwright::robustness
