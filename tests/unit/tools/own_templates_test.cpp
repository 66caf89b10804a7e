// Templates of an engine's own beside the built-in ones: the program takes the engine's files and the engine's launch list as they are, and
// makes what the engine looks for. The template is the one that docs/kernels.md shows.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/temporary_folder.hpp"
#include "kernwright/runtime.hpp"
#include "kernwright/template_source.hpp"
#include "sparse_mla/union_build_params.cuh"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;

/// The fenced block behind "`name`, the …" on the page.
std::string shown(const std::string& page, const std::string& name) {
  const std::size_t title = page.find("\n`" + name + "`, the ");
  REQUIRE_MESSAGE(title != std::string::npos, name);
  const std::size_t begin = page.find('\n', page.find("```", title)) + 1;
  return page.substr(begin, page.find("```", begin) - begin);
}

TemplateSource scale_of_the_page() {
  const std::string page = read_file(fs::path(KERNWRIGHT_SOURCE_FOLDER) / "docs" / "kernels.md");
  TemplateSource source;
  source.manifest = shown(page, "my_engine/scale.toml");
  for (const char* name : {"my_engine/scale_plan.cuh", "my_engine/scale.cu"}) source.files.push_back({name, shown(page, name)});
  return source;
}

/// A folder that holds these three files and nothing else.
void write_template(const fs::path& folder, const TemplateSource& source) {
  write_file(folder / "my_engine" / "scale.toml", source.manifest);
  for (const TemplateSource::File& file : source.files) write_file(folder / file.name, file.content);
}

struct ScaleParams {
  const float* in;
  float* out;
  float factor;
  long long count;
};

RuntimeOptions options_in(const fs::path& store, bool sealed) {
  RuntimeOptions options;
  options.store = store;
  options.read_only_stores.emplace();
  options.sealed = sealed;
  return options;
}

/// An engine with a kernel of its own and a built-in one.
struct Engine {
  Runtime runtime;
  Result<Kernel> own, built_in;
};

Engine engine(RuntimeOptions options, const TemplateSource& source) {
  auto runtime = Runtime::create(std::move(options));
  REQUIRE(runtime);
  const auto registered = runtime->register_template(source);
  REQUIRE_MESSAGE(registered, (registered ? "" : registered.error().text()));
  PrepareRequest own;
  own.template_name = "my_engine/scale";
  own.device = DeviceId::host();
  own.params_bytes = sizeof(ScaleParams);
  PrepareRequest built_in;
  built_in.template_name = "sparse_mla/union_build";
  built_in.specialisation.set("group_size", 2);
  built_in.device = DeviceId::host();
  built_in.params_bytes = sizeof(kw::sparse_mla::UnionBuildParams);
  auto kernel = runtime->prepare(own);
  auto other = runtime->prepare(built_in);
  return {*runtime, std::move(kernel), std::move(other)};
}

void check_scales(const Engine& engine) {
  REQUIRE_MESSAGE(engine.own, (engine.own ? "" : engine.own.error().text()));
  REQUIRE_MESSAGE(engine.built_in, (engine.built_in ? "" : engine.built_in.error().text()));
  std::vector<float> in(3000), out(in.size(), -1.0F);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) - 1000.0F;
  const auto count = static_cast<long long>(in.size());
  const long long rows = engine.own->plan().rows_per_block;
  const Grid grid{static_cast<std::uint32_t>((count + rows - 1) / rows), 1, 1};
  const auto launched = engine.own->launch(grid, ScaleParams{in.data(), out.data(), 2.5F, count}, StreamHandle{});
  REQUIRE_MESSAGE(launched, (launched ? "" : launched.error().text()));
  for (std::size_t i = 0; i < in.size(); ++i) REQUIRE(out[i] == 2.5F * (static_cast<float>(i) - 1000.0F));
}

}  // namespace

TEST_CASE("own templates: an engine's launch list, own and built-in kernels in it, is warmed and verified with the engine's three files") {
  const TemporaryFolder folder;
  const fs::path first = folder.path() / "first", second = folder.path() / "second", list = folder.path() / "launches.toml",
                 templates = folder.path() / "templates";
  const TemplateSource source = scale_of_the_page();
  write_template(templates, source);
  const Engine at_home = engine(options_in(first, false), source);
  check_scales(at_home);
  REQUIRE(at_home.runtime.write_launch_list(list));
  CHECK_CONTAINS(read_file(list), "my_engine/scale");
  CHECK_CONTAINS(read_file(list), "sparse_mla/union_build");

  const std::vector<std::string> own{"--templates", templates.string()};
  const std::vector<std::string> warm{"warm", "--list", list.string(), "--quiet", "--json"};
  const std::vector<std::string> verify{"cache", "verify", "--sealed", "--list", list.string(), "--json"};
  CHECK(json_of(kernwright_program(verify + own, in_store(second)))["failed"] > 0);
  const ChildResult warmed = kernwright_program(warm + own, in_store(second));
  REQUIRE_MESSAGE(warmed.exit_code == 0, warmed.err << warmed.out);
  CHECK(json_of(warmed)["built"] >= 2);
  const ChildResult verified = kernwright_program(verify + own, in_store(second));
  CHECK_MESSAGE(verified.exit_code == 0, verified.out);
  CHECK(json_of(verified)["failed"] == 0);
  // The program's keys are the engine's: it finds what was warmed, and compiles nothing.
  check_scales(engine(options_in(second, true), source));

  // The folder in place of the registration: RuntimeOptions::template_folder. Registering the same text beside it is no error.
  RuntimeOptions with_folder = options_in(second, true);
  with_folder.template_folder = templates;
  check_scales(engine(with_folder, source));

  for (const auto& words : {warm, verify}) check_refused(words, {list.string(), "my_engine/scale", "--templates FOLDER"});
}

TEST_CASE("own templates: a template without constants, and one of anything, are written as people would") {
  const TemporaryFolder folder;
  const fs::path templates = folder.path() / "templates";
  TemplateSource source = scale_of_the_page();
  const std::size_t parameter = source.manifest.find("[[parameter]]");
  source.manifest.erase(parameter, source.manifest.find("[[variant]]") - parameter);
  write_template(templates, source);
  const std::vector<std::string> words{"warm",        "--template",       "my_engine/scale", "--target", "host",
                                       "--templates", templates.string(), "--no-fallbacks",  "--quiet"};
  const ChildResult warmed = kernwright_program(words, in_store(folder.path() / "store"));
  REQUIRE_MESSAGE(warmed.exit_code == 0, warmed.err);
  CHECK(warmed.out.starts_with(
      "my_engine/scale\n1 kernel: 1 built, 0 hit, 0 skipped (above the target's limits), 0 failed; 1 plan table: 1 built, 0 hit\n"));
  write_file(templates / "my_engine" / "scale.cu", "#error no kernel\n");
  const ChildResult failed = kernwright_program(words, in_store(folder.path() / "store"));
  CHECK(failed.exit_code == 1);
  CHECK_CONTAINS(failed.out, "compiling my_engine/scale for host");
  const fs::path list = folder.path() / "list.toml";
  write_file(list, "format = 1\ntargets = [\"host\"]\n[[launch]]\ntemplate = \"my_engine/scale\"\n");
  const ChildResult missing = kernwright_program(
      {"cache", "verify", "--sealed", "--list", list.string(), "--templates", templates.string()}, in_store(folder.path() / "store"));
  CHECK(missing.exit_code == 1);
  CHECK_CONTAINS(missing.out, "missing  host my_engine/scale ");
  CHECK_CONTAINS(missing.out, "kernwright warm --template my_engine/scale --target host");
  CHECK_CONTAINS(missing.out, "--templates FOLDER");
  CHECK_FALSE(contains(warmed.out + failed.out + missing.out, "()"));
}

TEST_CASE("own templates: words that are off name the folder and the file") {
  const TemporaryFolder folder;
  const fs::path templates = folder.path() / "templates";
  write_template(templates, scale_of_the_page());
  const auto refused = [&](const fs::path& given, const std::vector<std::string>& parts) {
    check_refused({"warm", "--target", "host", "--template", "my_engine/scale", "--templates", given.string()}, parts);
  };
  // One level too deep: the plan's path does not begin there.
  refused(templates / "my_engine", {(templates / "my_engine").string(), "scale.toml", "my_engine/scale_plan.cuh", "tree's root"});
  fs::create_directories(folder.path() / "empty");
  refused(folder.path() / "empty", {(folder.path() / "empty").string(), "holds no template file"});
  write_file(templates / "my_engine" / "scale.cu", "#include \"my_engine/gone.cuh\"\n");
  refused(templates, {templates.string(), "my_engine/scale.cu:1", "my_engine/gone.cuh"});
}
