#include "support/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>

#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::support;

namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i) & 0xff);
  return file + rest;
}
std::string file_of(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\1'));
}

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "input.safetensors");
}

/// The message of a refusal; checks that it is one, and that it names the file.
std::string refusal(const std::string& file) {
  const Result<SafetensorsHeader> parsed = parse(file);
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().code == ErrorCode::malformed);
  CHECK(parsed.error().message.starts_with("input.safetensors"));
  return parsed.error().message;
}
std::string refusal(const std::string& header, std::size_t data_bytes) {
  return refusal(file_of(header, data_bytes));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
// The text is evaluated once, before the check: doctest evaluates a message again, under its reporter's lock, where a check within hangs.
#define CHECK_CONTAINS(text, part)                               \
  do {                                                           \
    const std::string checked_text = (text);                     \
    CHECK_MESSAGE(contains(checked_text, (part)), checked_text); \
  } while (false)

using tests::read_file;
using tests::write_file;

}  // namespace

TEST_CASE("safetensors: a header written by hand is read") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[2,3],"data_offsets":[4,28]},)"
      R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
      R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[28,36]}}  )";
  const Result<SafetensorsHeader> parsed = parse(file_of(header, 36));
  REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
  CHECK(parsed->metadata.at("format") == "pt");
  CHECK(parsed->data_offset == 8 + header.size());
  REQUIRE(parsed->tensors.size() == 4);
  const SafetensorsEntry* b = parsed->find("b");
  REQUIRE(b != nullptr);
  CHECK(b->dtype == DType::i32);
  CHECK(b->shape == std::vector<std::int64_t>{2, 3});
  CHECK(b->begin == 4);
  CHECK(b->bytes() == 24);
  CHECK(parsed->find("scalar")->dtype == std::nullopt);
  CHECK(parsed->find("scalar")->dtype_name == "F64");
  CHECK(parsed->find("c") == nullptr);
}

TEST_CASE("safetensors: no tensors at all is legal") {
  CHECK(parse(file_of("{}", 0)).has_value());
}

TEST_CASE("safetensors: truncated and oversized files are refused") {
  CHECK_CONTAINS(refusal(""), "0 bytes");
  CHECK_CONTAINS(refusal("1234567"), "7 bytes");
  CHECK_CONTAINS(refusal(with_length(10, "{}")), "claims 10 bytes, but the file has 2");
  CHECK_CONTAINS(refusal(with_length(100'000'001, "{}")), "claims 100000001 bytes; at most 100000000");
  CHECK_CONTAINS(refusal(with_length(~0ULL, "{}")), "claims 18446744073709551615 bytes");
  const std::string header = R"({"q":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})";
  CHECK(parse(file_of(header, 8)).has_value());
  CHECK_CONTAINS(refusal(header, 7), "pass the end of the data, which has 7 bytes");
  CHECK_CONTAINS(refusal(header, 9), "the data has 9 bytes, but the tensors end at 8");
  // Every prefix of a good file is a bad file.
  const std::string whole = file_of(header, 8);
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(parse(whole.substr(0, size)).has_value());
}

TEST_CASE("safetensors: text that is not a header is refused") {
  CHECK_CONTAINS(refusal("", 0), "begin with '{'");
  CHECK_CONTAINS(refusal("[1]", 0), "begin with '{'");
  CHECK_CONTAINS(refusal("{", 0), "not valid JSON");
  CHECK_CONTAINS(refusal("{} x", 0), "not valid JSON");
  CHECK_CONTAINS(refusal("{\"a\":\xff}", 0), "not valid JSON");
  CHECK_CONTAINS(refusal("{\"\xc3\x28\":1}", 0), "not valid JSON");
  CHECK_CONTAINS(refusal(R"({"a":3})", 0), "tensor 'a': found the number 3; legal is an object");
  CHECK_CONTAINS(refusal(R"({"a":[]})", 0), "tensor 'a': found an array");
  CHECK_CONTAINS(refusal(R"({"a":null})", 0), "tensor 'a': found null");
  CHECK_CONTAINS(refusal("{\"a\":" + std::string(100'000, '['), 0), "tensor 'a': found an array");
  std::string deep = "{";
  for (int i = 0; i < 50'000; ++i) deep += R"("a":{)";
  CHECK_CONTAINS(refusal(deep, 0), "the key 'a' is not known");
}

TEST_CASE("safetensors: keys that are missing, unknown or repeated are refused") {
  CHECK_CONTAINS(refusal(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "tensor 'a': dtype missing");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "tensor 'a': shape missing");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "tensor 'a': data_offsets missing");
  CHECK_CONTAINS(refusal(R"({"a":{}})", 0), "dtype, shape, data_offsets missing");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]}})", 4), "the key 'strides' is not known");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
                 "the key 'dtype' stands there twice");
  CHECK_CONTAINS(
      refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
      "'a' stands in the header twice");
  CHECK_CONTAINS(refusal(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "__metadata__: the key 'k' stands there twice");
}

TEST_CASE("safetensors: wrong types are refused") {
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), "found the number 7; dtype must be a string");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4), "shape must be an array");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4), "shape must hold whole numbers");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4), "found an array");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4), "shape holds '1.0'");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":{}}})", 4), "data_offsets must be [begin, end]");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "data_offsets has 1 numbers");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4), "more than 2 numbers");
  CHECK_CONTAINS(refusal(R"({"__metadata__":{"k":1}})", 0), "__metadata__ 'k': found the number 1; legal is a string");
  CHECK_CONTAINS(refusal(R"({"__metadata__":[]})", 0), "__metadata__: found an array");
}

TEST_CASE("safetensors: an unknown dtype is refused with the legal ones") {
  const std::string message = refusal(R"({"a":{"dtype":"float32","shape":[1],"data_offsets":[0,4]}})", 4);
  CHECK_CONTAINS(message, "dtype 'float32' is not known");
  CHECK_CONTAINS(message, "BF16");
  CHECK_CONTAINS(message, "I32");
}

TEST_CASE("safetensors: impossible shapes are refused") {
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "shape holds -1");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", 4),
                 "shape holds 9223372036854775808");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,4]}})", 4), "shape holds");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4), "more bytes than 64 bits");
  // 2^62 floats are 2^64 bytes: a product that wraps to 0.
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0), "more bytes than 64 bits");
  CHECK_CONTAINS(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), "hold 4 bytes, but shape [2] of F32 needs 8");
}

TEST_CASE("safetensors: offsets that lie are refused") {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  CHECK(parse(file_of(two("[4,8]", "[0,4]"), 8)).has_value());
  CHECK_CONTAINS(refusal(two("[0,4]", "[2,6]"), 8), "tensor 'b': data_offsets [2, 6] overlap those of 'a'");
  CHECK_CONTAINS(refusal(two("[0,4]", "[0,4]"), 4), "overlap");
  CHECK_CONTAINS(refusal(two("[0,4]", "[5,9]"), 9), "leave bytes 4 to 5 to no tensor");
  CHECK_CONTAINS(refusal(two("[1,5]", "[5,9]"), 9), "leave bytes 0 to 1 to no tensor");
  CHECK_CONTAINS(refusal(two("[0,4]", "[8,4]"), 8), "end before they begin");
  CHECK_CONTAINS(refusal(two("[0,4]", "[4,9]"), 9), "hold 5 bytes, but shape [4] of U8 needs 4");
  CHECK_CONTAINS(refusal(two("[0,4]", "[-4,0]"), 8), "data_offsets holds -4");
  CHECK_CONTAINS(refusal(two("[0,4]", "[18446744073709551612,18446744073709551616]"), 8), "data_offsets holds");
  CHECK_CONTAINS(refusal(two("[0,4]", "[18446744073709551611,18446744073709551615]"), 8), "pass the end of the data");
}

TEST_CASE("safetensors: a message shows a hostile name without its control characters") {
  const std::string message = refusal(R"({"\u001b[31m)" + std::string(500, 'x') + R"(":1})", 0);
  CHECK_CONTAINS(message, "\\x1b[31m");
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.size() < 400);
}

TEST_CASE("safetensors: what is written is read back, and is what the format says") {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "out.safetensors";
  const std::array<std::int32_t, 6> indices{1, -1, 3, 4, 5, 2'000'000'000};
  const std::array<std::uint16_t, 3> q{0x3f80, 0x0000, 0xffff};
  const std::array<SafetensorsTensor, 3> tensors{
      SafetensorsTensor{"indices \"x\"\n", DType::i32, {2, 3}, std::as_bytes(std::span(indices))},
      SafetensorsTensor{"q", DType::bf16, {3, 1}, std::as_bytes(std::span(q))},
      SafetensorsTensor{"empty", DType::f32, {0, 4}, {}},
  };
  const Result<> written = write_safetensors(path, tensors, {{"made by", "a \\ test"}});
  REQUIRE_MESSAGE(written.has_value(), written.error().message);

  const std::string text = read_file(path);
  CHECK(static_cast<unsigned char>(text[0]) % 8 == 0);
  CHECK(text[8] == '{');
  // The data in row-major, little-endian order, straight from the file.
  CHECK(std::memcmp(text.data() + text.size() - 30, indices.data(), 24) == 0);
  CHECK(text.substr(text.size() - 6) == std::string("\x80\x3f\x00\x00\xff\xff", 6));

  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  REQUIRE_MESSAGE(file.has_value(), file.error().message);
  CHECK(file->header().metadata.at("made by") == "a \\ test");
  const SafetensorsEntry* entry = file->header().find("indices \"x\"\n");
  REQUIRE(entry != nullptr);
  CHECK(entry->shape == std::vector<std::int64_t>{2, 3});
  const auto read = file->read<std::int32_t>(*entry);
  REQUIRE(read.has_value());
  CHECK(std::ranges::equal(*read, indices));
  CHECK(file->read<std::uint16_t>(*file->header().find("q")).value() == std::vector<std::uint16_t>{0x3f80, 0, 0xffff});
  CHECK(file->read<float>(*file->header().find("empty")).value().empty());
  CHECK(file->read<std::int32_t>(*file->header().find("q")).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("safetensors: the writer refuses what no reader would take") {
  const tests::TemporaryFolder folder;
  const std::array<std::byte, 8> bytes{};
  const auto write = [&](std::vector<SafetensorsTensor> tensors) { return write_safetensors(folder.path() / "x", tensors); };
  CHECK(write({{"a", DType::f32, {3}, bytes}}).error().code == ErrorCode::invalid_argument);
  CHECK(write({{"a", DType::f32, {-2}, bytes}}).error().code == ErrorCode::invalid_argument);
  CHECK(write({{"a", DType::f32, {2}, bytes}, {"a", DType::f32, {2}, bytes}}).error().code == ErrorCode::invalid_argument);
  CHECK(write({{"__metadata__", DType::f32, {2}, bytes}}).error().code == ErrorCode::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "x"));
}

TEST_CASE("safetensors: what is not a readable regular file is an error, and nothing waits for it") {
  const tests::TemporaryFolder folder;
  CHECK(SafetensorsFile::open(folder.path() / "absent").error().code == ErrorCode::not_found);
  const Result<SafetensorsFile> as_folder = SafetensorsFile::open(folder.path());
  CHECK(as_folder.error().code == ErrorCode::io);
  CHECK_CONTAINS(as_folder.error().message, "folder");
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(SafetensorsFile::open(folder.path() / "pipe").error().code == ErrorCode::io);
  write_file(folder.path() / "short", "abc");
  CHECK(SafetensorsFile::open(folder.path() / "short").error().code == ErrorCode::malformed);
}

TEST_CASE("safetensors: a file that becomes shorter after it was opened is an error") {
  const tests::TemporaryFolder folder;
  write_file(folder.path() / "f", file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
  const Result<SafetensorsFile> file = SafetensorsFile::open(folder.path() / "f");
  REQUIRE(file.has_value());
  std::filesystem::resize_file(folder.path() / "f", 30);
  const auto read = file->read<std::uint8_t>(*file->header().find("a"));
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == ErrorCode::io);
}

TEST_CASE("safetensors: a write that fails leaves the old file and nothing beside it") {
  const tests::TemporaryFolder folder;
  const std::array<std::byte, 4> bytes{};
  const std::array<SafetensorsTensor, 1> tensors{SafetensorsTensor{"a", DType::f32, {1}, bytes}};
  CHECK(write_safetensors(folder.path() / "no" / "such" / "file", tensors).error().code == ErrorCode::io);
  CHECK(write_safetensors(folder.path(), tensors).error().code == ErrorCode::io);
  const Result<> full = write_safetensors("/dev/full", tensors);
  REQUIRE_FALSE(full.has_value());
  CHECK_CONTAINS(full.error().message, "No space left");
  CHECK(std::filesystem::is_character_file("/dev/full"));

  write_file(folder.path() / "kept", "old");
  std::filesystem::create_symlink(folder.path() / "kept", folder.path() / "link");
  REQUIRE(write_safetensors(folder.path() / "link", tensors).has_value());
  CHECK(std::filesystem::is_symlink(folder.path() / "link"));
  CHECK(SafetensorsFile::open(folder.path() / "kept").has_value());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()) == 2);
}
