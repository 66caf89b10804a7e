#include "launch_list/launch_list.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace kernwright;

namespace {

LaunchList parsed(std::string_view text) {
  auto list = parse_launch_list(text, "list.toml");
  REQUIRE_MESSAGE(list, (list ? "" : list.error().text()));
  return std::move(*list);
}

/// Refused as malformed, with every part in the message.
void check_refused(std::string_view text, const std::vector<std::string>& parts) {
  const auto list = parse_launch_list(text, "list.toml");
  CAPTURE(text);
  REQUIRE_FALSE(list);
  CHECK(list.error().code == ErrorCode::malformed);
  for (const std::string& part : parts) {
    CHECK_MESSAGE(list.error().message.find(part) != std::string::npos, list.error().message << " lacks " << part);
  }
}

std::vector<std::string> texts(const LaunchList& list) {
  std::vector<std::string> all;
  for (const Launch& launch : list.launches) all.push_back(launch.specialisation.text());
  return all;
}

std::string with_specialisation(const std::string& lines) {
  return "format = 1\n[[launch]]\ntemplate = \"a/b\"\n[launch.specialisation]\n" + lines;
}

const Target kSm90 = *Target::parse("sm_90a");
const Target kSm100 = *Target::parse("sm_100a");

}  // namespace

TEST_CASE("launch list: every key is read") {
  const LaunchList list = parsed(R"(format = 1
targets = ["sm_90a", "sm_100a"]
[[launch]]
template = "sparse_mla/prefill"
targets = ["sm_90a"]
tile = "mma:m64n32s2w8"
fall_backs = false
[launch.specialisation]
heads = 8
dtype = "bf16"
[[launch]]
template = "sparse_mla/union_build"
)");
  CHECK(list.targets == std::vector<Target>{kSm90, kSm100});
  REQUIRE(list.launches.size() == 2);
  const Launch& first = list.launches[0];
  CHECK(first.template_name == "sparse_mla/prefill");
  CHECK(first.targets == std::vector<Target>{kSm90});
  CHECK(first.tile == Tile{"mma", 64, 32, 2, 8});
  CHECK_FALSE(first.fall_backs);
  CHECK(first.specialisation.get("heads") == ParameterValue(std::int64_t{8}));
  CHECK(first.specialisation.get("dtype") == ParameterValue(DType::bf16));
  CHECK(first.line == 3);
  const Launch& second = list.launches[1];
  CHECK(second.targets.empty());
  CHECK_FALSE(second.tile);
  CHECK(second.fall_backs);
  CHECK(second.specialisation.items().empty());
  CHECK(parsed("format = 1").launches.empty());
}

TEST_CASE("launch list: lists and ranges are multiplied out") {
  CHECK(texts(parsed(with_specialisation("heads = [8, 16]\ndtype = [\"bf16\", \"f16\"]\ng = { from = 2, to = 9, step = 3 }"))) ==
        std::vector<std::string>{"dtype=bf16 g=2 heads=8", "dtype=bf16 g=2 heads=16", "dtype=bf16 g=5 heads=8", "dtype=bf16 g=5 heads=16",
                                 "dtype=bf16 g=8 heads=8", "dtype=bf16 g=8 heads=16", "dtype=f16 g=2 heads=8", "dtype=f16 g=2 heads=16",
                                 "dtype=f16 g=5 heads=8", "dtype=f16 g=5 heads=16", "dtype=f16 g=8 heads=8", "dtype=f16 g=8 heads=16"});
  CHECK(texts(parsed(with_specialisation("x = { from = -1, to = 1 }"))) == std::vector<std::string>{"x=-1", "x=0", "x=1"});
  CHECK(texts(parsed(with_specialisation("x = { from = 7, to = 7, step = 100 }"))) == std::vector<std::string>{"x=7"});
  // The ends of 64 bits: the last value must neither be passed over nor run past.
  CHECK(texts(parsed(with_specialisation("x = { from = 9223372036854775806, to = 9223372036854775807 }"))) ==
        std::vector<std::string>{"x=9223372036854775806", "x=9223372036854775807"});
  CHECK(texts(parsed(with_specialisation("x = { from = -9223372036854775808, to = 9223372036854775807, step = 9223372036854775807 }"))) ==
        std::vector<std::string>{"x=-9223372036854775808", "x=-1", "x=9223372036854775806"});
}

TEST_CASE("launch list: a list of absurd size is refused with the number") {
  CHECK(parsed(with_specialisation("x = { from = 1, to = 65536 }")).launches.size() == 65536);
  check_refused(with_specialisation("x = { from = 1, to = 65537 }"),
                {"list.toml:5: [[launch]] 1: specialisation: x: key 'to' comes to 65537 values", "65536"});
  check_refused(with_specialisation("x = { from = -9223372036854775808, to = 9223372036854775807 }"),
                {"comes to more than 18446744073709551615 values"});
  check_refused(with_specialisation("x = { from = 0, to = 9223372036854775807 }"), {"comes to 9223372036854775808 values"});
  check_refused(with_specialisation("x = { from = 1, to = 300 }\ny = { from = 1, to = 300 }"),
                {"list.toml:4: [[launch]] 1: key 'specialisation' comes to 90000 launches", "65536"});
  const std::string many = "{ from = 1, to = 65536 }\n";
  check_refused(with_specialisation("v = " + many + "w = " + many + "x = " + many + "y = " + many),
                {"more than 18446744073709551615 launches"});
  // Each launch counts once a target, and the launches of a list count together.
  check_refused(
      "format = 1\ntargets = [\"sm_90a\", \"sm_100a\"]\n[[launch]]\ntemplate = \"a/b\"\nspecialisation = { x = { from = 1, to = 40000 } "
      "}\n",
      {"comes to 80000 launches"});
  const std::string half = "[[launch]]\ntemplate = \"a/b\"\nspecialisation = { x = { from = 1, to = 40000 } }\n";
  check_refused("format = 1\n" + half + half, {"list.toml:5: [[launch]] 2: ", "80000 launches"});
}

TEST_CASE("launch list: what is wrong is named with file, line and key") {
  check_refused("format = 2", {"list.toml:1: key 'format' is 2; this version reads format 1"});
  check_refused("targets = []", {"key 'format' is missing"});
  check_refused("format = 1\nlaunch = 3", {"list.toml:2: key 'launch' is the integer 3"});
  check_refused("format = 1\nlaunches = []", {"list.toml:2: key 'launches' is not known here"});
  check_refused("format = 1\ntargets = \"sm_90a\"",
                {"list.toml:2: key 'targets' is the string \"sm_90a\"; it must be an array of strings"});
  check_refused("format = 1\ntargets = [\"sm_91x\"]", {"list.toml:2: key 'targets'", "sm_91x", "sm_90a"});
  check_refused("format = 1\n[[launch]]\ntargets = []", {"list.toml:2: [[launch]] 1: key 'template' is missing"});
  check_refused("format = 1\n[[launch]]\ntemplate = \"../x\"", {"list.toml:3: [[launch]] 1: key 'template'", "../x"});
  check_refused("format = 1\n[[launch]]\ntemplate = \"a\"\n[[launch]]\ntemplate = \"a\"\ntile = \"mma\"",
                {"list.toml:6: [[launch]] 2: key 'tile'", "'mma'", "mma:m64n32s2w8"});
  check_refused("format = 1\n[[launch]]\ntemplate = \"a\"\nfall_backs = 1",
                {"list.toml:4:", "'fall_backs' is the integer 1; it must be true or false"});
  check_refused("format = 1\n[[launch]]\ntemplate = \"a\"\nheads = 8",
                {"list.toml:4: [[launch]] 1: key 'heads' is not known here", "specialisation"});
  check_refused("format = 1\n[[launch]]\ntemplate = \"a\"\nspecialisation = 8",
                {"list.toml:4:", "'specialisation' is the integer 8; it must be a table"});
  check_refused(with_specialisation("heads = 8.5"),
                {"list.toml:5: [[launch]] 1: specialisation: key 'heads' is the float 8.5; legal are an integer"});
  check_refused(with_specialisation("heads = true"), {"list.toml:5:", "the boolean true"});
  check_refused(with_specialisation("dtype = \"bf17\""), {"list.toml:5:", "'dtype' is the string \"bf17\"", "\"bf16\""});
  check_refused(with_specialisation("heads = []"), {"list.toml:5:", "'heads' is an empty list"});
  check_refused(with_specialisation("heads = [[8]]"), {"list.toml:5:", "'heads' is an array of 1"});
  check_refused(with_specialisation("union = 8"), {"list.toml:5:", "'union'", "keyword"});
  check_refused(with_specialisation("x = { from = 1 }"), {"list.toml:5: [[launch]] 1: specialisation: x: key 'to' is missing"});
  check_refused(with_specialisation("x = { from = 2, to = 1 }"), {"'to' is 1; legal is 2 (from) or more"});
  check_refused(with_specialisation("x = { from = 1, to = 2, step = 0 }"), {"'step' is 0; legal is 1 or more"});
  check_refused(with_specialisation("x = { from = 1, to = 2, by = 1 }"), {"key 'by' is not known here"});
  check_refused("format = 1\n[[launch]", {"list.toml:2"});
}

TEST_CASE("launch list: the canonical text") {
  LaunchList list;
  list.targets = {kSm90};
  const Specialisation eight = Specialisation().set("heads", 8).set("dtype", DType::bf16);
  list.launches.push_back({"b/x", eight, {}, std::nullopt, true, 0});
  list.launches.push_back({"a/y", Specialisation(), {kSm90}, Tile{"mma", 64, 32, 2, 8}, false, 0});
  list.launches.push_back({"b/x", Specialisation().set("dtype", DType::bf16).set("heads", 8), {}, std::nullopt, true, 0});
  auto text = write_launch_list(list);
  REQUIRE(text);
  CHECK(*text ==
        "format = 1\ntargets = [\"sm_90a\"]\n"
        "\n[[launch]]\ntemplate = \"a/y\"\ntile = \"mma:m64n32s2w8\"\nfall_backs = false\n"
        "\n[[launch]]\ntemplate = \"b/x\"\nspecialisation = { dtype = \"bf16\", heads = 8 }\n");
  // Targets that differ stand with each launch; one launch for two targets stands once.
  list.launches.push_back({"b/x", eight, {kSm100}, std::nullopt, true, 0});
  text = write_launch_list(list);
  REQUIRE(text);
  CHECK(*text ==
        "format = 1\n"
        "\n[[launch]]\ntemplate = \"a/y\"\ntargets = [\"sm_90a\"]\ntile = \"mma:m64n32s2w8\"\nfall_backs = false\n"
        "\n[[launch]]\ntemplate = \"b/x\"\ntargets = [\"sm_100a\", \"sm_90a\"]\nspecialisation = { dtype = \"bf16\", heads = 8 }\n");
  CHECK(*write_launch_list({}) == "format = 1\n");
}

TEST_CASE("launch list: more than the reader takes is not written") {
  LaunchList list;
  for (std::int64_t i = 0; i < 30'000; ++i)
    list.launches.push_back({"some/template", Specialisation().set("x", i), {kSm90}, std::nullopt, true, 0});
  const auto text = write_launch_list(list);
  REQUIRE_FALSE(text);
  CHECK(text.error().code == ErrorCode::invalid_argument);
  CHECK(text.error().message.find("30000 launches") != std::string::npos);
}

namespace {

/// A request in words, by no code of the writer's.
std::string words_of(const WarmRequest& request) {
  std::set<std::string> parameters;
  for (const auto& [name, value] : request.specialisation.items()) parameters.insert(name + "=" + to_string(value));
  std::string text = request.template_name + "|" + request.target.name() + "|" + (request.tile ? request.tile->text() : "-") + "|" +
                     (request.fall_backs ? "+" : "-");
  for (const std::string& parameter : parameters) text += "|" + parameter;
  return text;
}

std::set<std::string> requests_of(const LaunchList& list) {
  const auto requests = launch_requests(list, {}, "list.toml");
  REQUIRE_MESSAGE(requests, (requests ? "" : requests.error().text()));
  std::set<std::string> all;
  for (const WarmRequest& request : *requests) all.insert(words_of(request));
  return all;
}

LaunchList random_list(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto targets = [&](int at_least) {
    std::vector<Target> some;
    for (const Target& target : Target::all_cuda()) {
      if (below(3) == 0) some.push_back(target);
    }
    if (below(4) == 0) some.push_back(Target::host());
    if (some.empty() && at_least > 0) some.push_back(kSm90);
    return some;
  };
  LaunchList list;
  list.targets = targets(1);
  for (int i = below(12); i > 0; --i) {
    Launch launch;
    launch.template_name = std::vector<std::string>{"a/b", "a/c", "x"}[static_cast<std::size_t>(below(3))];
    for (const char* name : {"heads", "dtype", "group_size", "d_qk"}) {
      if (below(3) == 0) continue;
      if (below(3) == 0) {
        launch.specialisation.set(name, DType(1 + below(6)));
      } else {
        launch.specialisation.set(name, std::int64_t{below(4)} - 1);
      }
    }
    if (below(2) == 0) launch.targets = targets(0);
    if (below(3) == 0) launch.tile = Tile{"mma", 16 << below(2), 32, 1 + below(2), 8};
    launch.fall_backs = below(3) != 0;
    list.launches.push_back(std::move(launch));
  }
  std::shuffle(list.launches.begin(), list.launches.end(), random);
  return list;
}

}  // namespace

TEST_CASE("launch list: what is written is read back as the same set, and written again as the same text") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const LaunchList list = random_list(random);
    const auto text = write_launch_list(list);
    REQUIRE(text);
    CAPTURE(*text);
    const LaunchList again = parsed(*text);
    REQUIRE(requests_of(again) == requests_of(list));
    REQUIRE(*write_launch_list(again) == *text);
  }
}

TEST_CASE("launch list: targets that are given replace the list's and narrow a launch's own") {
  const LaunchList list = parsed(
      "format = 1\ntargets = [\"sm_80\"]\n[[launch]]\ntemplate = \"a\"\n[[launch]]\ntemplate = \"b\"\ntargets = [\"sm_90a\", "
      "\"sm_100a\"]\n");
  CHECK(requests_of(list) == std::set<std::string>{"a|sm_80|-|+", "b|sm_90a|-|+", "b|sm_100a|-|+"});
  const auto given = launch_requests(list, std::vector{kSm90}, "list.toml");
  REQUIRE(given);
  REQUIRE(given->size() == 2);
  CHECK(words_of((*given)[0]) == "a|sm_90a|-|+");
  CHECK(words_of((*given)[1]) == "b|sm_90a|-|+");

  const LaunchList own = parsed("format = 1\n[[launch]]\ntemplate = \"b\"\ntargets = [\"sm_90a\"]\n");
  const auto none = launch_requests(own, std::vector{kSm100}, "list.toml");
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "list.toml: no launch is for sm_100a; its launches are for sm_90a");

  const auto nowhere = launch_requests(parsed("format = 1\n[[launch]]\ntemplate = \"b\"\n"), {}, "list.toml");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == ErrorCode::invalid_argument);
  CHECK(nowhere.error().message.find("list.toml:2: the launch of b names no target") != std::string::npos);
  CHECK(launch_requests(LaunchList{}, std::vector{kSm90}, "list.toml")->empty());
}
