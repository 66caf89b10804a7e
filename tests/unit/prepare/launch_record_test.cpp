// The launch list that a running process writes of what it prepared, and lists read with the templates at hand.
#include <doctest/doctest.h>

#include <thread>

#include "cases/scale_template.hpp"
#include "fixtures/temporary_folder.hpp"
#include "kernwright/runtime.hpp"

using namespace kernwright;
using cases::ScaleParams;
using tests::read_file;
using tests::TemporaryFolder;
using tests::write_file;

namespace {

Runtime scale_runtime(const std::filesystem::path& store) {
  RuntimeOptions options;
  options.store = store;
  auto runtime = Runtime::create(options);
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  return *runtime;
}

Result<Kernel> prepare(const Runtime& runtime, std::int64_t factor, const char* tile) {
  const auto asked = tile != nullptr ? std::optional(*Tile::parse(tile)) : std::nullopt;
  return runtime.prepare(
      {"test/scale", Specialisation{}.set("factor", factor), DeviceId::host(), asked, sizeof(ScaleParams), std::nullopt});
}

}  // namespace

TEST_CASE("launch record: what was prepared is written, with tiles asked for by name, and warms what another process needs") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "list.toml";
  {
    const Runtime runtime = scale_runtime(folder.path() / "first");
    REQUIRE(runtime.write_launch_list(file));
    CHECK(read_file(file) == "format = 1\n");
    REQUIRE(prepare(runtime, 3, nullptr));  // steps down to n200
    REQUIRE(prepare(runtime, 3, nullptr));
    REQUIRE(prepare(runtime, 2, "plain:m1n40s1w2"));
    CHECK_FALSE(prepare(runtime, 1001, nullptr));
    REQUIRE(runtime.write_launch_list(file));
  }
  CHECK(read_file(file) ==
        "format = 1\ntargets = [\"host\"]\n"
        "\n[[launch]]\ntemplate = \"test/scale\"\ntile = \"plain:m1n40s1w2\"\nspecialisation = { factor = 2 }\n"
        "\n[[launch]]\ntemplate = \"test/scale\"\nspecialisation = { factor = 3 }\n");

  const auto store = folder.path() / "second";
  {
    const Runtime runtime = scale_runtime(store);
    const auto requests = runtime.read_launch_list(file);
    REQUIRE_MESSAGE(requests, (requests ? "" : requests.error().text()));
    CHECK(requests->size() == 2);
    const auto summary = runtime.warm_all(*requests);
    REQUIRE(summary);
    CHECK(summary->failed == 0);
    CHECK(summary->built >= 4);
  }
  const Runtime served = scale_runtime(store);
  REQUIRE(prepare(served, 3, nullptr));
  REQUIRE(prepare(served, 2, "plain:m1n40s1w2"));
  CHECK(served.counters().compiles == 0);
}

TEST_CASE("launch record: a file that cannot be written is an error, and the old one stays") {
  const TemporaryFolder folder;
  const Runtime runtime = scale_runtime(folder.path() / "store");
  const auto written = runtime.write_launch_list(folder.path() / "no" / "such" / "list.toml");
  REQUIRE_FALSE(written);
  CHECK(written.error().text().find("list.toml") != std::string::npos);
  std::filesystem::create_directory(folder.path() / "folder");
  CHECK_FALSE(runtime.write_launch_list(folder.path() / "folder"));
}

TEST_CASE("launch list: words that the templates do not know are named with file and line") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "list.toml";
  const Runtime runtime = scale_runtime(folder.path() / "store");
  const auto refused = [&](const std::string& launch, ErrorCode code, const std::string& part) {
    write_file(file,
               "format = 1\ntargets = [\"host\"]\n[[launch]]\ntemplate = \"test/scale\"\nspecialisation = { factor = 1 }\n\n" + launch);
    const auto requests = runtime.read_launch_list(file);
    REQUIRE_FALSE(requests);
    CHECK_MESSAGE(requests.error().code == code, requests.error().text());
    CHECK_MESSAGE(requests.error().message.find(file.string() + ":7: [[launch]]: ") == 0, requests.error().message);
    CHECK_MESSAGE(requests.error().message.find(part) != std::string::npos, requests.error().message);
  };
  refused("[[launch]]\ntemplate = \"test/scales\"\n", ErrorCode::not_found, "test/scale");
  refused("[[launch]]\ntemplate = \"test/scale\"\n", ErrorCode::invalid_argument, "'factor' was not given");
  refused("[[launch]]\ntemplate = \"test/scale\"\nspecialisation = { factor = [1, 1001] }\n", ErrorCode::invalid_argument, "1001");
  refused("[[launch]]\ntemplate = \"test/scale\"\nspecialisation = { factor = \"bf16\" }\n", ErrorCode::invalid_argument, "the dtype bf16");
  refused("[[launch]]\ntemplate = \"test/scale\"\nspecialisation = { factor = 1 }\ntile = \"mma:m1n1s1w1\"\n", ErrorCode::invalid_argument,
          "it has: plain");

  const auto absent = runtime.read_launch_list(folder.path() / "absent.toml");
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == ErrorCode::not_found);
  write_file(file, std::string((1 << 20) + 1, '#'));
  CHECK_FALSE(runtime.read_launch_list(file));
}
