// Which row of the tuning tables a prepare and a warm take, and what is said of those that cannot be used.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cases/scale_template.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/temporary_folder.hpp"
#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"
#include "prepare/table_rows.hpp"
#include "tuning/search_command.hpp"
#include "unit/prepare/watched_backend.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

constexpr const char* kOtherDigest = "digest = \"00112233445566778899aabbccddeeff\"\n";

std::string row(const std::string& tile, const std::string& fields, const std::string& target = "default") {
  return "[[tile]]\ntemplate = \"test/scale\"\ntarget = \"" + target + "\"\ntile = \"" + tile + "\"\n" + fields;
}

/// A runtime with one user's table, on host and on a device that says it is an H200; the host compiler makes its kernels.
class Tuned {
 public:
  explicit Tuned(const std::string& rows) {
    write_file(folder_.path() / "mine.toml", "format = 1\n" + rows);
    RuntimeOptions options;
    options.memory_only = true;
    options.tuning_folder = folder_.path();
    options.log_level = LogLevel::info;
    options.log = log_.callback();
    auto resolved = resolve_options(std::move(options));
    REQUIRE(resolved);
    state_ = Runtime::State::create(std::move(*resolved));
    const auto cuda = std::make_shared<WatchedBackend>(state_->host);
    cuda->pretended = *state_->host->devices();
    cuda->pretended.front().id = DeviceId::cuda(0);
    cuda->pretended.front().name = "NVIDIA H200";
    cuda->pretended.front().target = *Target::parse("sm_90a");
    state_->cuda = cuda;
    runtime_.emplace(state_);
    REQUIRE(runtime_->register_template(cases::scale_template()));
  }

  std::string tile(std::int64_t factor, DeviceId device = DeviceId::host()) {
    const auto kernel = runtime_->prepare(
        {"test/scale", Specialisation{}.set("factor", factor), device, std::nullopt, sizeof(cases::ScaleParams), std::nullopt});
    REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
    return kernel->report().tile_asked.text();
  }
  std::vector<std::string> warmed(std::int64_t factor) {
    const auto items = runtime_->warm({"test/scale", Specialisation{}.set("factor", factor), Target::host(), std::nullopt, false});
    REQUIRE_MESSAGE(items, (items ? "" : items.error().text()));
    std::vector<std::string> tiles;
    for (const WarmedItem& item : *items) {
      if (item.outcome != WarmOutcome::skipped) tiles.push_back(item.tile.text());
    }
    return tiles;
  }
  [[nodiscard]] const Runtime& runtime() const { return *runtime_; }
  [[nodiscard]] Runtime::State& state() const { return *state_; }
  [[nodiscard]] std::vector<std::string> warnings() const { return log_.lines(LogLevel::warn); }
  [[nodiscard]] const LogLines& log() const { return log_; }
  [[nodiscard]] std::string file() const { return (folder_.path() / "mine.toml").string(); }

 private:
  TemporaryFolder folder_;
  LogLines log_;
  std::shared_ptr<Runtime::State> state_;
  std::optional<Runtime> runtime_;
};

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("table rows: where a row's tile is not legal the next row that matches is taken, with one warning for all specialisations") {
  // The best row's tile is not offered; the next one's holds. Neither is what runs without a table.
  const std::string rows = row("plain:m1n41s1w1", "", "host") + row("plain:m1n40s1w2", "");
  Tuned tuned(rows);
  CHECK(tuned.tile(1) == "plain:m1n40s1w2");
  CHECK(tuned.tile(2) == "plain:m1n40s1w2");
  REQUIRE(tuned.warnings().size() == 1);
  CHECK_MESSAGE(holds(tuned.warnings()[0], tuned.file()), tuned.warnings()[0]);
  CHECK_MESSAGE(holds(tuned.warnings()[0], "plain:m1n41s1w1"), tuned.warnings()[0]);
  CHECK(tuned.log().containing("a default tile runs") == 0);

  Tuned other(rows);
  CHECK(other.warmed(1) == std::vector<std::string>{"plain:m1n40s1w2"});
  REQUIRE(other.warnings().size() == 1);
  CHECK(holds(other.warnings()[0], "plain:m1n41s1w1"));

  // The same where the words differ, as they do for a tile that is legal for some specialisations.
  Tuned several("");
  const TuningTables::Match<TuningRow> match{
      {"test/scale", {}, "host", "", "", *Tile::parse("plain:m1n1s1w1"), ""}, "a.toml", Closeness::target};
  for (const char* words : {"not legal for factor=1", "not legal for factor=2"}) {
    warn_of_illegal_tile(several.state(), match, Error{ErrorCode::invalid_argument, words, {}});
  }
  REQUIRE(several.warnings().size() == 1);
  CHECK(holds(several.warnings()[0], "tuning table a.toml (target) names a tile for test/scale that is passed over"));
  // Another table, template or tile is another matter.
  TuningTables::Match<TuningRow> other_table = match, other_template = match, other_tile = match;
  other_table.table = "b.toml";
  other_template.row.template_name = "test/other";
  other_tile.row.tile = *Tile::parse("plain:m1n2s1w1");
  for (const auto& other_match : {other_table, other_template, other_tile}) {
    warn_of_illegal_tile(several.state(), other_match, Error{ErrorCode::invalid_argument, "not legal", {}});
  }
  CHECK(several.warnings().size() == 4);

  Tuned none(row("plain:m1n41s1w1", "", "host"));
  CHECK(none.tile(1) == "plain:m1n1024s1w1");
  CHECK(none.warmed(1) == std::vector<std::string>{"plain:m1n200s1w1"});  // the first of the order that fits the interpreter
  CHECK(none.warnings().size() == 1);
}

TEST_CASE("table rows: of a table for other sources one warning a template speaks, however many of its rows are in the way") {
  const std::string rows = row("plain:m1n200s1w2", std::string("when = { factor = 1 }\n") + kOtherDigest, "host") +
                           row("plain:m1n200s1w2", std::string("when = { factor = 2 }\n") + kOtherDigest, "host") +
                           row("plain:m1n1s1w2", kOtherDigest, "host") + row("plain:m1n40s1w2", "");
  Tuned tuned(rows);
  for (const std::int64_t factor : {1, 2, 3}) CHECK(tuned.tile(factor) == "plain:m1n40s1w2");
  CHECK(tuned.warmed(4) == std::vector<std::string>{"plain:m1n40s1w2"});
  REQUIRE(tuned.warnings().size() == 1);
  CHECK(tuned.warnings()[0] ==
        "tuning table " + tuned.file() +
            " holds for other sources of test/scale than these, and 3 of 4 rows for it are passed over; measure anew, or delete "
            "them");
}

TEST_CASE("table rows: a row that can match nothing is named when its template is looked up, and once") {
  Tuned tuned(row("plain:m1n40s1w2", "when = { facktor = 1 }\n") + row("plain:m1n40s1w2", "when = { factor = 1001 }\n") +
              "[[tile]]\ntemplate = \"nobody/knows\"\nwhen = { a = 1 }\ntarget = \"default\"\ntile = \"plain:m1n1s1w1\"\n"
              "[[preference]]\ntemplate = \"test/scale\"\ntarget = \"default\"\nparameter = \"group\"\nvalue = 2\n");
  CHECK(tuned.tile(1) == "plain:m1n1024s1w1");
  CHECK(tuned.tile(2) == "plain:m1n1024s1w1");
  REQUIRE(tuned.warnings().size() == 3);
  const std::string begin = "tuning table " + tuned.file() + " has a row for test/scale that matches nothing: when = ";
  CHECK(tuned.warnings()[0] == begin + "{ facktor = 1 } names the parameter 'facktor', which test/scale does not have; it has: factor");
  CHECK_MESSAGE(holds(tuned.warnings()[1], begin + "{ factor = 1001 } names a value"), tuned.warnings()[1]);
  CHECK_MESSAGE(holds(tuned.warnings()[1], "1000"), tuned.warnings()[1]);  // what is legal
  CHECK_MESSAGE(holds(tuned.warnings()[2], "prefers a value of the parameter 'group'"), tuned.warnings()[2]);
}

TEST_CASE("table rows: a default tile is a warning where somebody measured the template, and a line of the log where nobody did") {
  const DeviceId h200 = DeviceId::cuda(0);
  // Measured on another target, for another factor: one warning a template, which says what to do.
  Tuned measured(row("plain:m1n40s1w2", "when = { factor = 9 }\nmeasured = \"elsewhere\"\n", "sm_80"));
  CHECK(measured.tile(1, h200) == "plain:m1n1024s1w1");
  CHECK(measured.tile(2, h200) == "plain:m1n1024s1w1");
  REQUIRE(measured.warnings().size() == 1);
  CHECK(measured.warnings()[0] ==
        "no tuning table has a tile of test/scale (factor=1) on NVIDIA H200 (sm_90a): a default tile runs; a row in a table of "
        "KERNWRIGHT_TUNING_DIR chooses another");
  // On the interpreter nothing is missing.
  Tuned on_host(row("plain:m1n40s1w2", "when = { factor = 9 }\nmeasured = \"elsewhere\"\n", "sm_80"));
  CHECK(on_host.tile(1) == "plain:m1n1024s1w1");
  CHECK(on_host.warnings().empty());

  Tuned unmeasured(row("plain:m1n40s1w2", "", "sm_80"));
  CHECK(unmeasured.tile(1, h200) == "plain:m1n1024s1w1");
  CHECK(unmeasured.warnings().empty());
  const auto lines = unmeasured.log().lines();
  const std::string said = "no tuning table has a tile of test/scale (factor=1) on NVIDIA H200 (sm_90a): a default tile runs";
  CHECK(std::ranges::find(lines, said) != lines.end());

  // A row that was passed over has its own warning, and that one says what to do.
  Tuned stale(row("plain:m1n40s1w2", std::string("measured = \"here\"\n") + kOtherDigest, "sm_90a"));
  CHECK(stale.tile(1, h200) == "plain:m1n1024s1w1");
  CHECK(stale.warnings().size() == 1);
  CHECK(holds(stale.warnings().at(0), "other sources"));
}

TEST_CASE("table rows: of the built-in templates a default tile of those that the program measures is a warning, with its words") {
  const Tuned tuned("");
  for (const std::string& name : tuned.runtime().template_names()) {
    CAPTURE(name);
    const auto tables = tuned.state().tables();
    REQUIRE(tables);
    const bool searched = name == "sparse_mla/prefill" || name == "paged_mla/decode";
    CHECK((*tables)->has_measured_tile(name) == searched);
    CHECK(search_command(name).empty() != searched);
  }
  CHECK(tuned.runtime().template_names().size() > 3);
  CHECK(search_command("sparse_mla/prefill") == "kernwright tune sparse-mla");
  CHECK(search_command("paged_mla/decode") == "kernwright tune paged-mla");
}
