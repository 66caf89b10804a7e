// Templates some of whose tiles were made to misbehave, and what a tuning of them is looked at by.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/temporary_folder.hpp"
#include "unit/tools/program.hpp"

namespace kernwright::tests {

/// The portable variant of a template, and where its kernel's work begins: behind this line, which a probe launch does not pass.
struct PlantedFamily {
  std::string folder, source, manifest, first_line;
};

/// n16 burns time in every block, by so many turns of a loop; n32 is what the template is, but prints where a worker answers; n48 faults,
/// n64 writes nothing, n80 does not compile, n96 never ends.
inline std::string misbehaving(int turns) {
  return R"(
  if (kw::tile.block_n == 16 && threadIdx.x == 0) {
    for (volatile int i = 0; i < )" +
         std::to_string(turns) + R"(; i = i + 1) {
    }
  }
  if (kw::tile.block_n == 32 && threadIdx.x == 0) {
    long print(int, const void*, unsigned long) __asm__("write");
    print(1, "printed by a tile\n", 18);
  }
  if (kw::tile.block_n == 48) __builtin_trap();
  if (kw::tile.block_n == 64) return;
  static_assert(kw::tile.block_n != 80);
  if (kw::tile.block_n == 96) {
    for (volatile int i = 0; i < 1;) {
    }
  }
)";
}

/// Kernwright's templates, of the family's on host the portable variant alone: with `planted` in its kernel, `axes` as its tiles, and
/// `standing` as the default.
inline std::filesystem::path planted_templates(const std::filesystem::path& folder, const PlantedFamily& family, std::string_view planted,
                                               const std::string& axes, const std::string& standing) {
  auto templates = folder / "templates";
  std::filesystem::copy(std::filesystem::path(KERNWRIGHT_SOURCE_FOLDER) / "kernel_templates", templates,
                        std::filesystem::copy_options::recursive);
  const auto source = templates / family.folder / family.source;
  std::string text = read_file(source);
  REQUIRE(contains(text, family.first_line));
  text.insert(text.find(family.first_line) + family.first_line.size(), planted);
  write_file(source, text);
  const auto manifest = templates / family.folder / family.manifest;
  text = read_file(manifest);
  const std::size_t order = text.find("fall_back = ["), parameters = text.find("[[parameter]]"), variants = text.find("[[variant]]");
  const std::size_t others = text.find("[[variant]]", variants + 1);
  REQUIRE(others != std::string::npos);
  std::string rest = text.substr(others);  // the plan names them
  for (const std::string on_host = "host = true"; contains(rest, on_host);) {
    rest.replace(rest.find(on_host), on_host.size(), "host = false");
  }
  write_file(manifest, text.substr(0, order) + "fall_back = [\"" + standing + "\"]\n" + text.substr(parameters, variants - parameters) +
                           "[[variant]]\nname = \"portable\"\nsource = \"" + family.folder + "/" + family.source +
                           "\"\nminimum_capability = \"8.0\"\ntargets = []\nhost = true\n" + axes + rest);
  return templates;
}

inline std::size_t lines_of(const std::filesystem::path& file) {
  const std::string text = std::filesystem::exists(file) ? read_file(file) : "";
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// What a table decides, without what was measured on the way.
inline std::string decisions_of(const std::string& table) {
  std::istringstream lines(table);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const bool decides =
        std::ranges::any_of(std::vector<std::string>{"[[", "template", "when", "target", "device", "tile", "default", "digest"},
                            [&](const std::string& key) { return line.starts_with(key); });
    if (decides) kept += line + "\n";
  }
  return kept;
}

/// A run into `table` that is killed in the middle leaves no table, and the same words go on with its journal to the decisions of
/// `written`. `words_for` gives the words of a tuning into a table.
template <class WordsFor>
void a_killed_run_goes_on(const WordsFor& words_for, const std::filesystem::path& table, const std::string& written) {
  INFO("killed in the middle");
  const auto journal = std::filesystem::path(table.string() + ".journal.jsonl");
  ChildOptions options = in_store();
  options.while_running = [&](pid_t child) {
    if (lines_of(journal) >= 3) ::kill(child, SIGKILL);
  };
  const ChildResult killed = run_child(KERNWRIGHT_PROGRAM, words_for(table), options);
  CHECK_FALSE(killed.exited);
  CHECK_FALSE(std::filesystem::exists(table));
  std::string before = read_file(journal);
  before.resize(before.rfind('\n') + 1);
  const ChildResult resumed = kernwright_program(words_for(table) + std::vector<std::string>{"--json"});
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(json_of(resumed)["resumed"].get<std::size_t>() + 1 == static_cast<std::size_t>(std::ranges::count(before, '\n')));
  CHECK(read_file(journal).starts_with(before));
  CHECK(decisions_of(read_file(table)) == decisions_of(written));
}

}  // namespace kernwright::tests
