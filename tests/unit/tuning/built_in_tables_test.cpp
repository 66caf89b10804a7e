// The tables that ship: each of their rows names something that there is, and holds for the templates as they are now.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "prepare/candidates.hpp"
#include "tuning/row_check.hpp"
#include "tuning/search_command.hpp"
#include "unit/tools/edited_templates.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

/// Rows for any target are judged on this one.
constexpr const char* kJudgedTarget = "sm_90a";

Runtime make_runtime(const std::filesystem::path& templates = {}) {
  RuntimeOptions options;
  options.memory_only = true;
  if (!templates.empty()) options.template_folder = templates;
  auto runtime = Runtime::create(options);
  REQUIRE_MESSAGE(runtime, (runtime ? "" : runtime.error().text()));
  return *runtime;
}

/// Without NVRTC no plan can be asked for: said, and all else is judged.
bool compiler_present(const Runtime& runtime) {
  const auto identity = runtime.state().cuda->compiler().identity();
  if (!identity) MESSAGE("plans are not judged, no compiler: " << identity.error().text());
  return identity.has_value();
}

struct Judge {
  Runtime runtime;
  bool plans = false;

  /// Why the tile cannot run: not legal for the specialisation, or more than a block of the target may have.
  [[nodiscard]] std::string plan_problem(const TuningRow& row, const TemplateDefinition& definition) const {
    Runtime::State& state = runtime.state();
    Specialisation given;
    for (const auto& item : row.when) {
      std::visit([&](auto value) { given.set(item.name, value); }, item.value);
    }
    const auto specialisation = definition.manifest.complete(given);
    if (!specialisation) return specialisation.error().text();
    const Target target = *Target::parse(row.target == kAnyTarget ? kJudgedTarget : row.target);
    const auto candidates = legal_candidates(state, definition, *specialisation, row.tile, target, state.cuda->compiler());
    if (!candidates) return candidates.error().text();
    const auto limits = limits_of(state, target);
    return limits ? over_limit(candidates->front().plan, *limits) : limits.error().text();
  }

  static std::string digest_problem(const std::string& digest, const TemplateDefinition& definition) {
    if (digest == definition.digest) return {};
    const std::string_view command = search_command(definition.manifest.name);
    return fmt::format("it was measured with other sources (digest {}, now {}) and holds for nothing: measure again{}, or delete the row",
                       digest.empty() ? "none" : digest, definition.digest, command.empty() ? "" : fmt::format(" ({})", command));
  }

  /// What is wrong with the table's rows, a line each.
  [[nodiscard]] std::vector<std::string> problems(const TuningTable& table) const {
    std::vector<std::string> found;
    const auto judge = [&](const auto& row, auto plan_problem) {
      const auto add = [&](const std::string& problem) {
        if (!problem.empty()) found.push_back(fmt::format("{}: {} {}: {}", table.name, row.template_name, when_text(row.when), problem));
      };
      const auto definition = (*runtime.state().templates())->find(row.template_name);
      if (!definition) return add(definition.error().text());
      if (!row.measured.empty() || !row.digest.empty()) add(digest_problem(row.digest, **definition));
      const std::string problem = row_problem(row, (*definition)->manifest);
      add(problem.empty() && plans ? plan_problem(row, **definition) : problem);
    };
    for (const TuningRow& row : table.tiles) {
      judge(row, [&](const TuningRow& each, const TemplateDefinition& definition) { return plan_problem(each, definition); });
    }
    for (const PreferenceRow& row : table.preferences) {
      judge(row, [](const PreferenceRow&, const TemplateDefinition&) { return std::string(); });
    }
    return found;
  }
};

Judge make_judge(const std::filesystem::path& templates = {}) {
  Judge judge{make_runtime(templates)};
  judge.plans = compiler_present(judge.runtime);
  return judge;
}

TuningTable parsed(const NamedText& text) {
  auto table = parse_tuning_table(text.content, text.name, TableOwner::kernwright);
  REQUIRE_MESSAGE(table, (table ? "" : table.error().text()));
  return *table;
}

/// A table that is right, whatever ships: its digests are those of the sources as they are.
TuningTable right_table(const Judge& judge) {
  constexpr std::string_view kRows = R"(format = 1
[[tile]]
template = "sparse_mla/prefill"
when = { heads = 8, group_size = 1 }
target = "sm_90a"
tile = "wgmma_keys:m8n64s3w8"
measured = "nowhere"
[[tile]]
template = "paged_mla/decode"
when = { heads = 16 }
target = "sm_90a"
device = "NVIDIA H200"
tile = "wgmma_keys:m16n64s2w8"
measured = "nowhere"
[[preference]]
template = "sparse_mla/prefill"
when = { heads = 8 }
target = "sm_90a"
parameter = "group_size"
value = 8
measured = "nowhere"
)";
  TuningTable table = parsed({"right.toml", std::string(kRows)});
  const auto refresh = [&](auto& rows) {
    for (auto& row : rows) row.digest = (*(*judge.runtime.state().templates())->find(row.template_name))->digest;
  };
  refresh(table.tiles);
  refresh(table.preferences);
  return table;
}

}  // namespace

TEST_CASE("built-in tables: every row parses, names what there is, is legal and holds for the sources as they are") {
  const Judge judge = make_judge();
  std::size_t rows = 0;
  for (const NamedText& text : embedded_tuning_tables()) {
    const TuningTable table = parsed(text);
    rows += table.tiles.size() + table.preferences.size();
    for (const std::string& problem : judge.problems(table)) FAIL_CHECK(problem);
  }
  CHECK(rows > 0);
}

TEST_CASE("built-in tables: a row that is off is found, whatever of it is") {
  const Judge judge = make_judge();
  const TuningTable right = right_table(judge);
  for (const std::string& each : judge.problems(right)) FAIL(each);
  const auto problem = [&](auto change) {
    TuningTable changed = right;
    change(changed);
    const auto problems = judge.problems(changed);
    return problems.size() == 1 ? problems.front() : fmt::format("{} problems", problems.size());
  };
  const auto holds = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  struct Wrong {
    const char* says;
    void (*change)(TuningTable&);
  };
  for (const Wrong& wrong :
       {Wrong{"no template", [](TuningTable& t) { t.tiles[0].template_name = "sparse_mla/prefil"; }},
        Wrong{"names the parameter 'haeds'", [](TuningTable& t) { t.tiles[0].when[0].name = "haeds"; }},
        Wrong{"names a value",
              [](TuningTable& t) {
                t.tiles[0].when = {{"heads", std::int64_t{129}}, {"group_size", std::int64_t{1}}};
              }},
        Wrong{"has no variant 'wgmna'", [](TuningTable& t) { t.tiles[0].tile.variant = "wgmna"; }},
        Wrong{"does not offer block_n = 7", [](TuningTable& t) { t.tiles[0].tile.block_n = 7; }},
        Wrong{"is not offered on sm_80",
              [](TuningTable& t) {
                t.tiles[0].target = "sm_80";
                t.tiles[0].tile = *Tile::parse("wgmma:m64n48s3w16");
              }},
        Wrong{"measured with other sources", [](TuningTable& t) { t.tiles[0].digest[0] = t.tiles[0].digest[0] == '0' ? '1' : '0'; }},
        Wrong{"(digest none, now", [](TuningTable& t) { t.tiles[0].digest.clear(); }},
        Wrong{"measured with other sources", [](TuningTable& t) { t.preferences[0].digest += "0"; }},
        Wrong{"parameter 'group'", [](TuningTable& t) { t.preferences[0].parameter = "group"; }},
        Wrong{"preferred value", [](TuningTable& t) { t.preferences[0].value = 3; }}}) {
    CAPTURE(wrong.says);
    const std::string said = problem(wrong.change);
    CHECK_MESSAGE(holds(said, wrong.says), said);
    CHECK_MESSAGE(holds(said, right.name), said);
  }
  if (!judge.plans) return;
  // Of the manifest's tiles, but in no plan's sense: eight columns are too few for 16 heads.
  const std::string illegal = problem([](TuningTable& t) {
    t.tiles[0].when = {{"heads", std::int64_t{16}}, {"group_size", std::int64_t{1}}};
    t.tiles[0].tile = *Tile::parse("wgmma_keys:m8n64s3w8");
  });
  CHECK_MESSAGE(holds(illegal, "wgmma_keys:m8n64s3w8 is not legal"), illegal);
}

TEST_CASE("built-in tables: a kernel's text that changed makes the rows of its template hold for nothing, and no other's") {
  const TemporaryFolder folder;
  const auto templates = edited_templates(folder.path(), "paged_mla/decode_portable.cu", "// Paged", "//  Paged");
  const TuningTable table = right_table(make_judge());
  Judge judge = make_judge(templates);
  judge.plans = false;  // nothing of them changed
  const auto problems = judge.problems(table);
  REQUIRE(problems.size() == 1);
  for (const std::string_view part : {"right.toml: paged_mla/decode { heads = 16 }: it was measured with other sources",
                                      "measure again (kernwright tune paged-mla), or delete the row"}) {
    CHECK_MESSAGE(problems.front().find(part) != std::string::npos, problems.front());
  }
}
