#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "templates/template_set.hpp"

using namespace kernwright;

namespace {
std::shared_ptr<TemplateSet> own_set() {
  auto set = template_set_of(embedded_template_tree());
  REQUIRE_MESSAGE(set, (set ? "" : set.error().text()));
  return *set;
}
}  // namespace

TEST_CASE("template set: the embedded templates are there") {
  const auto names = own_set()->names();
  CHECK(std::find(names.begin(), names.end(), "sparse_mla/prefill") != names.end());
  CHECK(std::find(names.begin(), names.end(), "sparse_mla/union_build") != names.end());
}

TEST_CASE("template set: an unknown name lists the known ones") {
  auto found = own_set()->find("sparse_mla/prefil");
  REQUIRE_FALSE(found);
  CHECK(found.error().code == ErrorCode::not_found);
  CHECK(found.error().message.find("sparse_mla/prefill") != std::string::npos);
  CHECK(found.error().message.find("--templates FOLDER") != std::string::npos);
}

TEST_CASE("template set: the same template twice is one, another under its name is refused") {
  const auto set = own_set();
  CHECK(set->add(cases::scale_template()));
  CHECK(set->add(cases::scale_template()));
  auto other = set->add(cases::scale_template("another text"));
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::invalid_argument);
}

TEST_CASE("template set: a deep include changes the digest") {
  TemplateSource a = cases::scale_template();
  a.files.front().content = "#include \"test/one.cuh\"\n" + a.files.front().content;
  a.files.push_back({"test/one.cuh", "#include \"test/two.cuh\"\n"});
  a.files.push_back({"test/two.cuh", "#include \"test/three.cuh\"\n"});
  a.files.push_back({"test/three.cuh", "constexpr int depth = 3;\n"});
  TemplateSource b = a;
  b.files.back().content = "constexpr int depth = 4;\n";
  const auto first = own_set(), second = own_set();
  REQUIRE(first->add(a));
  REQUIRE(second->add(b));
  CHECK((*first->find("test/scale"))->digest != (*second->find("test/scale"))->digest);
}

TEST_CASE("template set: reserved names and missing files are refused") {
  TemplateSource own = cases::scale_template();
  own.files.push_back({"common/plan.cuh", "struct Plan {};"});
  auto added = own_set()->add(own);
  REQUIRE_FALSE(added);
  CHECK(added.error().message.find("common/plan.cuh") != std::string::npos);

  own = cases::scale_template();
  own.files.push_back({"kernwright/specialisation.cuh", ""});
  CHECK_FALSE(own_set()->add(own));

  own = cases::scale_template();
  own.files.pop_back();
  added = own_set()->add(own);
  REQUIRE_FALSE(added);
  CHECK(added.error().message.find("test/scale.cu") != std::string::npos);
}

namespace {

/// The tests' own template as the files of a folder.
FileMap scale_files(const std::string& manifest_name = "test/scale.toml") {
  const TemplateSource source = cases::scale_template();
  FileMap files{{manifest_name, source.manifest}};
  for (const TemplateSource::File& file : source.files) files.emplace(file.name, file.content);
  return files;
}

std::shared_ptr<TemplateSet> set_with(const FileMap& overlay) {
  auto set = template_set_of(embedded_template_tree(), overlay);
  REQUIRE_MESSAGE(set, (set ? "" : set.error().text()));
  return *set;
}

/// Names whose definitions are not those of the built-in set.
std::vector<std::string> changed(const TemplateSet& set) {
  const auto built_in = own_set();
  std::vector<std::string> names;
  for (const std::string& name : built_in->names()) {
    const auto other = set.find(name);
    if (!other || (*other)->digest != (*built_in->find(name))->digest) names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("template set: an overlay of own templates adds them and leaves the built-in ones as they are") {
  const auto set = set_with(scale_files());
  CHECK(set->names().size() == own_set()->names().size() + 1);
  CHECK(changed(*set).empty());
  // As if it had been registered: the same digest, so the same keys, fits and tuned tiles.
  const auto registered = own_set();
  REQUIRE(registered->add(cases::scale_template()));
  CHECK((*set->find("test/scale"))->digest == (*registered->find("test/scale"))->digest);
  CHECK(set->add(cases::scale_template()));
}

TEST_CASE("template set: a file of an overlay changes the built-in templates that reach it, and no other") {
  const FileMap tree = embedded_template_tree();
  CHECK(changed(*set_with({{"paged_kv/translate.cu", tree.at("paged_kv/translate.cu") + "// other\n"}})) ==
        std::vector<std::string>{"paged_kv/translate"});
  // A library file stands under the overlay's own templates too.
  FileMap overlay = scale_files();
  overlay["common/shared_memory.cuh"] = tree.at("common/shared_memory.cuh") + "// other\n";
  const auto set = set_with(overlay);
  CHECK((*set->find("test/scale"))->files.at("common/shared_memory.cuh").ends_with("// other\n"));
  CHECK((*set->find("test/scale"))->digest != (*set_with(scale_files())->find("test/scale"))->digest);
  const auto names = changed(*set);
  CHECK(std::ranges::find(names, "sparse_mla/prefill") != names.end());
  CHECK(std::ranges::find(names, "paged_kv/translate") == names.end());
}

TEST_CASE("template set: a template of an overlay with a built-in's name replaces it, wherever its manifest lies") {
  const std::string built_in = "sparse_mla/union_build";
  for (const char* file : {"mine/scale.toml", "sparse_mla/union_build.toml"}) {
    FileMap overlay = scale_files(file);
    std::string& manifest = overlay.at(file);
    manifest.replace(manifest.find("test/scale"), std::string("test/scale").size(), built_in);
    const auto set = set_with(overlay);
    CHECK(set->names() == own_set()->names());
    CHECK((*set->find(built_in))->manifest.entry == "test_scale");
    CHECK(changed(*set) == std::vector<std::string>{built_in});
  }
  // Twice in the overlay, it is not known which one is meant.
  FileMap twice = scale_files();
  twice.emplace("test/second.toml", twice.at("test/scale.toml") + "# other\n");
  const auto refused = template_set_of(embedded_template_tree(), twice);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text().find("test/second.toml") != std::string::npos);
}

TEST_CASE("template set: a folder is read as the embedded tree is laid out") {
  const cases::TemporaryFolder folder;
  for (const auto& [name, content] : embedded_template_tree()) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name) << content;
  }
  const auto files = FileSystem::posix();
  auto tree = template_tree_in_folder(folder.path(), *files);
  REQUIRE(tree);
  CHECK(*tree == embedded_template_tree());
  CHECK_FALSE(template_tree_in_folder(folder.path() / "nowhere", *files));
  std::filesystem::create_directory(folder.path() / "empty");
  tree = template_tree_in_folder(folder.path() / "empty", *files);
  REQUIRE_FALSE(tree);
  CHECK(tree.error().message.find("holds no template file") != std::string::npos);
}
