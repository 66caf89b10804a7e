#include "store/fit.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "fixtures/example_artifact.hpp"
#include "store/compiler_record.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

constexpr std::string_view kFit = R"(format = 1

[[fit]]
template = "demo/scale"
specialisation = "heads=8"
target = "sm_90a"
device = "NVIDIA H200"
capability_major = 9
capability_minor = 0
shared_memory_per_block = 232448
compiler = "nvrtc 13.0"
asked = "mma:m128n64s3w8"
fitted = "mma:m64n32s2w8"
reason = "too \"large\"\nby far"
)";

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string with(std::string_view from, std::string_view to) {
  std::string text(kFit);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("fit: the written form is read and written again") {
  const auto fit = parse_fit(kFit);
  REQUIRE_MESSAGE(fit, (fit ? "" : fit.error().text()));
  CHECK(fit->template_name == "demo/scale");
  CHECK(fit->specialisation == "heads=8");
  CHECK(fit->target == "sm_90a");
  CHECK(fit->device_name == "NVIDIA H200");
  CHECK(fit->capability_major == 9);
  CHECK(fit->capability_minor == 0);
  CHECK(fit->shared_memory_per_block == Bytes{232448});
  CHECK(fit->compiler == "nvrtc 13.0");
  CHECK(fit->asked == Tile{"mma", 128, 64, 3, 8});
  CHECK(fit->fitted == Tile{"mma", 64, 32, 2, 8});
  CHECK(fit->reason == "too \"large\"\nby far");
  CHECK(write_fit(*fit) == kFit);
}

TEST_CASE("fit: a damaged record is refused") {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string_view>>{
           {with("format = 1", "format = 9"), "reads format 1"},
           {with("device = \"NVIDIA H200\"\n", ""), "'device' is missing"},
           {with("mma:m64n32s2w8", "mma"), "variant:m<rows>"},
           {with("capability_major = 9", "capability_major = -9"), "0 or more"},
           {with("capability_major = 9", "capability_major = 99999999999"), "0 or more"},
           {with("= 232448", "= -1"), "0 or more bytes"},
           {with("reason", "raison"), "'reason' is missing"},
           {std::string(kFit) + "more = 1\n", "'more' is not known"},
           {std::string(kFit) + "[[fit]]\n", "stands 2 times"},
           {"format = 1\n", "stands 0 times"},
       }) {
    const auto fit = parse_fit(text);
    REQUIRE_FALSE(fit);
    CHECK(fit.error().code == ErrorCode::malformed);
    CHECK_MESSAGE(holds(fit.error().message, part), fit.error().message);
  }
  for (std::size_t length = 0; length + 1 < kFit.size(); ++length) CHECK_FALSE(parse_fit(kFit.substr(0, length)));
}

TEST_CASE("fit: the key counts the device, the compiler and the tile asked for, and not what the tile decides") {
  struct Inputs {
    std::string digest = "0123";
    BuildRequest request = example_request();
    DeviceInfo device;
    CompilerIdentity compiler = example_compiler();
    Tile asked{"mma", 128, 64, 3, 8};
    [[nodiscard]] std::string key() const { return fit_key(digest, request, device, compiler, asked).hex(); }
  };
  Inputs base;
  base.device.name = "NVIDIA H200";
  base.device.capability_major = 9;
  base.device.shared_memory_per_block = {232448};
  std::set<std::string> keys{base.key()};
  for (const std::function<void(Inputs&)>& change : std::vector<std::function<void(Inputs&)>>{
           [](Inputs& i) { i.digest.back() = '4'; },
           [](Inputs& i) { i.request.template_name = "demo/other"; },
           [](Inputs& i) { i.request.specialisation.set("heads", 16); },
           [](Inputs& i) { i.request.target = *Target::parse("sm_90"); },
           [](Inputs& i) { i.request.options.pop_back(); },
           [](Inputs& i) { i.device.name = "NVIDIA H100"; },
           [](Inputs& i) { i.device.capability_major = 10; },
           [](Inputs& i) { i.device.capability_minor = 1; },
           [](Inputs& i) { i.device.shared_memory_per_block = {1}; },
           [](Inputs& i) { i.compiler.components[0].second += 'x'; },
           [](Inputs& i) { i.asked.stages = 2; },
       }) {
    Inputs changed = base;
    change(changed);
    CHECK(keys.insert(changed.key()).second);
  }
  for (const std::function<void(Inputs&)>& change : std::vector<std::function<void(Inputs&)>>{
           [](Inputs& i) { i.request.tiles[0].block_m = 16; },
           [](Inputs& i) { i.request.sources.clear(); },  // the template's digest stands for them
           [](Inputs& i) { i.device.id.ordinal = 3; },
           [](Inputs& i) { i.device.multiprocessors = 7; },
       }) {
    Inputs changed = base;
    change(changed);
    CHECK(changed.key() == base.key());
  }
}

TEST_CASE("compiler record: reads back, and its name is the identity's") {
  const CompilerIdentity compiler{"host", "g++ (Debian 12.2.0)\nCopyright \"x\"", {{"flags", "-O2"}, {"flags", ""}}};
  const auto read = parse_compiler_record(write_compiler_record(compiler), "r.toml");
  REQUIRE_MESSAGE(read, (read ? "" : read.error().text()));
  CHECK(*read == compiler);
  CHECK(compiler_record_name(compiler).size() == 32);
  CHECK(compiler_record_name(compiler) != compiler_record_name(example_compiler()));
  CHECK_FALSE(parse_compiler_record("format = 1\nname = \"x\"\n", "r.toml"));
}
