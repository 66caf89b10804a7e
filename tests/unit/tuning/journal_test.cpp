// The journal: what is written is there again, whatever the end of the process was.
#include "search/journal.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>

#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::tuning;
using kernwright::tests::read_file;
using kernwright::tests::TemporaryFolder;

namespace {

const Json kRun{{"family", "sparse-mla"}, {"seed", 1}};

Measurement measured(const char* tile, int round, std::vector<double> samples) {
  Measurement made;
  made.task = {{"demo/scale", Specialisation().set("heads", 8).set("dtype", DType::bf16)}, *Tile::parse(tile), Phase::finals, round};
  made.outcome = Outcome::measured;
  made.shapes = {{"1x64", std::move(samples)}, {"2x32", {0.1}}};
  return made;
}

Measurement failed(const char* tile, Outcome outcome, const char* reason) {
  Measurement made = measured(tile, 0, {});
  made.task.phase = Phase::search;
  made.outcome = outcome;
  made.reason = reason;
  made.shapes.clear();
  return made;
}

std::unique_ptr<Journal> open(const std::filesystem::path& file, const Json& run = kRun) {
  auto journal = Journal::open(file, run, "2026-01-02");
  REQUIRE_MESSAGE(journal, (journal ? "" : journal.error().text()));
  return std::move(*journal);
}

void append_text(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::app | std::ios::binary) << text;
}

}  // namespace

TEST_CASE("tuning: a journal gives back what was written, to the last bit") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "run.jsonl";
  {
    const auto journal = open(file);
    CHECK(journal->resumed() == 0);
    REQUIRE(journal->append(measured("mma:m16n16s1w4", 2, {0.1, 1.0 / 3, 1e-9})));
    REQUIRE(journal->append(failed("mma:m16n32s1w4", Outcome::faulted, "signal 11\n\"quoted\" \xff")));
    REQUIRE(journal->find(measured("mma:m16n16s1w4", 2, {}).task) != nullptr);
  }
  auto journal = Journal::open(file, kRun, "2027-07-07");
  REQUIRE(journal);
  CHECK((*journal)->resumed() == 2);
  CHECK((*journal)->date() == "2026-01-02");  // of the run, not of today
  const Measurement* known = (*journal)->find(measured("mma:m16n16s1w4", 2, {}).task);
  REQUIRE(known != nullptr);
  CHECK(known->outcome == Outcome::measured);
  CHECK(known->task.subject == measured("mma:m16n16s1w4", 2, {}).task.subject);
  REQUIRE(known->shapes.size() == 2);
  CHECK(known->shapes[0].shape == "1x64");
  CHECK(known->shapes[0].samples_ms == std::vector<double>{0.1, 1.0 / 3, 1e-9});
  const Measurement* fault = (*journal)->find(failed("mma:m16n32s1w4", Outcome::hung, "").task);
  REQUIRE(fault != nullptr);
  CHECK(fault->outcome == Outcome::faulted);
  CHECK(fault->reason == "signal 11\n\"quoted\" \xEF\xBF\xBD");
  // Another round, phase or tile is another task.
  CHECK((*journal)->find(measured("mma:m16n16s1w4", 1, {}).task) == nullptr);
  CHECK((*journal)->find(failed("mma:m16n16s1w4", Outcome::hung, "").task) == nullptr);
}

TEST_CASE("tuning: whatever a kill left of the last line, the lines before it count and the next is whole") {
  const TemporaryFolder folder;
  const auto whole = folder.path() / "whole.jsonl";
  {
    const auto journal = open(whole);
    REQUIRE(journal->append(measured("mma:m16n16s1w4", 0, {1, 2})));
    REQUIRE(journal->append(measured("mma:m16n32s1w4", 0, {3, 4})));
  }
  const std::string text = read_file(whole);
  const std::size_t second = text.find('\n', text.find('\n') + 1) + 1;
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    const auto file = folder.path() / "torn.jsonl";
    std::filesystem::remove(file);
    append_text(file, text.substr(0, length));
    {
      const auto journal = open(file);
      CHECK(journal->resumed() == (length >= second ? 1 : 0));
      REQUIRE(journal->append(measured("mma:m16n32s1w4", 0, {3, 4})));
    }
    const auto again = open(file);
    CHECK(again->resumed() == (length >= second ? 2 : 1));
    CHECK(again->find(measured("mma:m16n32s1w4", 0, {}).task)->shapes[0].samples_ms == std::vector<double>{3, 4});
  }
}

TEST_CASE("tuning: a journal of another run, a damaged one and one in use are refused with what to do") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "run.jsonl";
  const auto refused = [&](const Json& run, ErrorCode code, std::initializer_list<std::string_view> parts) {
    const auto journal = Journal::open(file, run, "2026-01-02");
    REQUIRE_FALSE(journal);
    CHECK(journal.error().code == code);
    for (const std::string_view part : parts)
      CHECK_MESSAGE(journal.error().message.find(part) != std::string::npos, journal.error().message);
  };
  {
    const auto held = open(file);
    refused(kRun, ErrorCode::unsupported, {"another process writes it"});
  }
  refused({{"family", "sparse-mla"}, {"seed", 2}}, ErrorCode::invalid_argument, {"seed: here 2, in the journal 1", "--journal"});
  refused({{"family", "sparse-mla"}, {"seed", 1}, {"more", true}}, ErrorCode::invalid_argument, {"more: here true, not in the journal"});
  const std::string before = read_file(file);
  append_text(file, "{\"template\":3}\n");
  refused(kRun, ErrorCode::malformed, {"run.jsonl:2", "field 'template' must be a string", "remove it"});
  CHECK(read_file(file) == before + "{\"template\":3}\n");  // and is left as it is
  std::filesystem::remove(file);
  append_text(file, "something of somebody's\n");
  refused(kRun, ErrorCode::malformed, {"run.jsonl:1"});
  std::filesystem::remove(file);
  append_text(file, "{\"kind\":7,\"format\":\"x\"}\n");
  refused(kRun, ErrorCode::malformed, {"the first line must say kind"});
  const auto nowhere = Journal::open(folder.path() / "no" / "folder", kRun, "");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == ErrorCode::io);
}

TEST_CASE("tuning: a score is the geometric mean of the shapes' medians, and infinite for what was not measured") {
  Measurement made = measured("mma:m16n16s1w4", 0, {8, 1, 2});
  made.shapes[1].samples_ms = {32, 8, 8, 8};
  CHECK(score(made) == doctest::Approx(4));  // medians 2 and 8
  for (const Outcome outcome : {Outcome::hopeless, Outcome::wrong, Outcome::faulted}) {
    made.outcome = outcome;
    CHECK(score(made) == std::numeric_limits<double>::infinity());
  }
}
