#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "cases/scale_template.hpp"
#include "templates/template_set.hpp"

using namespace kernwright;

namespace {

std::shared_ptr<const TemplateDefinition> scale_definition() {
  auto set = template_set_of(embedded_template_tree());
  REQUIRE(set);
  REQUIRE((*set)->add(cases::scale_template()));
  return *(*set)->find("test/scale");
}

const std::string& source(const BuildRequest& request, const std::string& name) {
  const auto found = std::find_if(request.sources.begin(), request.sources.end(), [&](const SourceFile& f) { return f.name == name; });
  REQUIRE(found != request.sources.end());
  return found->content;
}

}  // namespace

TEST_CASE("generated header: typed constants of the manifest's parameters and of one tile") {
  const auto definition = scale_definition();
  auto request = kernel_request(*definition, Specialisation{}.set("factor", 7), *Tile::parse("plain:m1n40s1w2"), *Target::parse("sm_90a"));
  REQUIRE(request);
  CHECK(request->sources.front().name == "test/scale.cu");
  const std::string& header = source(*request, "kernwright/specialisation.cuh");
  CHECK(header.find("struct Specialisation { int factor; };") != std::string::npos);
  CHECK(header.find("enum class Variant : int { plain, };") != std::string::npos);
  CHECK(header.find("specialisation{7, }") != std::string::npos);
  CHECK(header.find("Tile tile{Variant::plain, 1, 40, 1, 2}") != std::string::npos);
  CHECK(header.find("target_capability = 90") != std::string::npos);
  CHECK(source(*request, "common/plan.cuh").find("struct Plan") != std::string::npos);
  CHECK(std::is_sorted(request->sources.begin() + 1, request->sources.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
}

TEST_CASE("generated plans: one unit for all tiles, without a kernel") {
  const auto definition = scale_definition();
  const std::vector<Tile> tiles{*Tile::parse("plain:m1n40s1w2"), *Tile::parse("plain:m1n1s1w1")};
  auto request = plans_request(*definition, Specialisation{}.set("factor", 7), tiles, Target::host());
  REQUIRE(request);
  CHECK(request->kind == ArtifactKind::plans);
  CHECK(request->entry.empty());
  CHECK(request->sources.front().content.find("kw_plans[2]") != std::string::npos);
  for (const SourceFile& file : request->sources) CHECK(file.content.find("__global__") == std::string::npos);
}

TEST_CASE("generated header: a value beyond 32 bits is refused") {
  const auto definition = scale_definition();
  auto request =
      kernel_request(*definition, Specialisation{}.set("factor", std::int64_t{1} << 40), *Tile::parse("plain:m1n40s1w2"), Target::host());
  REQUIRE_FALSE(request);
  CHECK(request.error().message.find("factor") != std::string::npos);
}
