#include "key/key.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "fixtures/example_artifact.hpp"

using namespace kernwright;
using namespace kernwright::tests;

TEST_CASE("key: digests are XXH3-128 in canonical order") {
  // From the Python package xxhash 4.1.0: xxh3_128(…).hexdigest().
  CHECK(content_hash(std::string_view()) == "99aa06d3014798d86001c324468d497f");
  CHECK(content_hash(std::string_view("kernwright")) == "02ba2ae019e1c3e2b2751837c1d01aad");
  std::string long_text;
  for (int i = 0; i < 8 * 256; ++i) long_text += static_cast<char>(i);
  CHECK(digest(long_text).hex() == "df73e0768dd183fadd420471ff96bd00");
}

TEST_CASE("key: a field is its tag and its bytes, each after its length") {
  FieldEncoder fields;
  fields.field("ab", "xyz").field("n", std::int64_t{-2});
  CHECK(fields.bytes() == std::string("\2\0\0\0ab\3\0\0\0\0\0\0\0xyz"
                                      "\1\0\0\0n\10\0\0\0\0\0\0\0\376\377\377\377\377\377\377\377",
                                      38));
  CHECK(FieldEncoder().field("a", "bc").hash() != FieldEncoder().field("ab", "c").hash());
  CHECK(FieldEncoder().field("t", "a").field("t", "bc").hash() != FieldEncoder().field("t", "ab").field("t", "c").hash());
}

TEST_CASE("key: a decoder takes what an encoder wrote, and refuses anything else without reading past the end") {
  FieldEncoder encoder;
  encoder.field("name", "value").field("count", std::int64_t{7});
  const std::string bytes = encoder.bytes();
  FieldDecoder decoder(bytes);
  CHECK(decoder.field("name") == "value");
  CHECK(decoder.count("count", 7) == 7);
  CHECK(decoder.finished());

  FieldDecoder too_many(bytes);
  too_many.field("name");
  CHECK(too_many.count("count", 6) == 0);
  CHECK_FALSE(too_many.ok());

  FieldDecoder other_tag(bytes);
  CHECK(other_tag.field("nome").empty());
  CHECK_FALSE(other_tag.ok());
  CHECK(other_tag.integer("count") == 0);

  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    FieldDecoder decoder_of_cut(cut);
    decoder_of_cut.field("name");
    decoder_of_cut.integer("count");
    CHECK_FALSE(decoder_of_cut.finished());
  }
  std::string huge = bytes;
  for (std::size_t i = 8; i < 16; ++i) huge[i] = '\xff';  // the length of the first field's bytes
  FieldDecoder of_huge(huge);
  CHECK(of_huge.field("name").empty());
  CHECK_FALSE(of_huge.ok());
}

TEST_CASE("key: a fixed request has a fixed key") {
  // Computed by tests/cases/entry_v1.py, which shares no code with the library. A change here makes every store miss: raise the format's
  // version and write a new golden entry.
  CHECK(entry_key(example_request(), example_compiler()).hex() == "703297a421dd992223348893485a5d7b");
}

TEST_CASE("key: every field counts") {
  using Change = std::function<void(BuildRequest&, CompilerIdentity&)>;
  const std::vector<std::pair<const char*, Change>> changes{
      {"kind", [](auto& r, auto&) { r.kind = ArtifactKind::plans; }},
      {"template", [](auto& r, auto&) { r.template_name += 'x'; }},
      {"entry", [](auto& r, auto&) { r.entry += 'x'; }},
      {"template and entry", [](auto& r, auto&) { r.template_name += r.entry, r.entry.clear(); }},
      {"parameter value", [](auto& r, auto&) { r.specialisation.set("heads", 16); }},
      {"parameter type", [](auto& r, auto&) { r.specialisation.set("dtype", std::int64_t{1}); }},
      {"dtype", [](auto& r, auto&) { r.specialisation.set("dtype", DType::f16); }},
      {"one parameter more", [](auto& r, auto&) { r.specialisation.set("group_size", 1); }},
      {"parameter name", [](auto& r, auto&) { r.specialisation = Specialisation().set("head", 8).set("dtype", DType::bf16); }},
      {"order of parameters", [](auto& r, auto&) { r.specialisation = Specialisation().set("dtype", DType::bf16).set("heads", 8); }},
      {"variant", [](auto& r, auto&) { r.tiles[0].variant = "portable"; }},
      {"block_m", [](auto& r, auto&) { r.tiles[0].block_m = 32; }},
      {"block_n", [](auto& r, auto&) { r.tiles[0].block_n = 64; }},
      {"stages", [](auto& r, auto&) { r.tiles[0].stages = 8; }},
      {"warps", [](auto& r, auto&) { r.tiles[0].warps = 2; }},
      {"stages and warps", [](auto& r, auto&) { std::swap(r.tiles[0].stages, r.tiles[0].warps); }},
      {"one tile more", [](auto& r, auto&) { r.tiles.push_back(r.tiles[0]); }},
      {"no tile", [](auto& r, auto&) { r.tiles.clear(); }},
      {"target", [](auto& r, auto&) { r.target = *Target::parse("sm_80"); }},
      {"the target's suffix", [](auto& r, auto&) { r.target = *Target::parse("sm_90"); }},
      {"host", [](auto& r, auto&) { r.target = Target::host(); }},
      {"source content", [](auto& r, auto&) { r.sources[0].content[3] = 'x'; }},
      {"included content", [](auto& r, auto&) { r.sources[2].content += '\n'; }},
      {"source name", [](auto& r, auto&) { r.sources[1].name += 'x'; }},
      {"order of sources", [](auto& r, auto&) { std::swap(r.sources[1], r.sources[2]); }},
      {"a byte from content to name", [](auto& r, auto&) { r.sources[2].name += '#', r.sources[2].content.erase(0, 1); }},
      {"one source less", [](auto& r, auto&) { r.sources.pop_back(); }},
      {"option", [](auto& r, auto&) { r.options[1] = "-G"; }},
      {"order of options", [](auto& r, auto&) { std::swap(r.options[0], r.options[1]); }},
      {"joined options", [](auto& r, auto&) { r.options = {"--std=c++20-lineinfo"}; }},
      {"compiler name", [](auto&, auto& c) { c.name = "host"; }},
      {"compiler version", [](auto&, auto& c) { c.version = "13.1"; }},
      {"component id", [](auto&, auto& c) { c.components[1].second = "feedbeee"; }},
      {"component name", [](auto&, auto& c) { c.components[1].first = "libnvrtc"; }},
      {"order of components", [](auto&, auto& c) { std::swap(c.components[0], c.components[1]); }},
      {"one component less", [](auto&, auto& c) { c.components.pop_back(); }},
  };
  std::set<std::string> keys{entry_key(example_request(), example_compiler()).hex()};
  for (const auto& [name, change] : changes) {
    CAPTURE(name);
    BuildRequest request = example_request();
    CompilerIdentity compiler = example_compiler();
    change(request, compiler);
    CHECK(keys.insert(entry_key(request, compiler).hex()).second);
  }
}

TEST_CASE("key: the stored form of a request reads back, and a damaged one is refused") {
  const BuildRequest request = example_request();
  const std::string bytes = encode_request(request, SourceForm::digest);
  const auto read = decode_request(bytes);
  REQUIRE(read);
  CHECK(read->kind == request.kind);
  CHECK(read->template_name == request.template_name);
  CHECK(read->entry == request.entry);
  CHECK(read->specialisation == request.specialisation);
  CHECK(read->tiles == request.tiles);
  CHECK(read->target == request.target);
  CHECK(read->options == request.options);
  REQUIRE(read->sources.size() == 3);
  CHECK(read->sources[1].name == "demo/scale_plan.cuh");
  CHECK(read->sources[1].content.size() == 16);

  for (std::size_t length = 0; length < bytes.size(); ++length) CHECK_FALSE(decode_request(std::string_view(bytes).substr(0, length)));
  CHECK_FALSE(decode_request(bytes + '\0'));
  CHECK_FALSE(decode_request(encode_request(request, SourceForm::content)));

  const std::string compiler = encode_compiler(example_compiler());
  CHECK(*decode_compiler(compiler) == example_compiler());
  for (std::size_t length = 0; length < compiler.size(); ++length)
    CHECK_FALSE(decode_compiler(std::string_view(compiler).substr(0, length)));
}
