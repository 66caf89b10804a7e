#include <doctest/doctest.h>

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

TEST_CASE("template set: a folder replaces the embedded tree") {
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
}
