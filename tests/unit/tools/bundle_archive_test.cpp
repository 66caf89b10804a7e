// What a tar archive and a zstd frame can hide beside the members that a reader reports: none of it passes.
#include <doctest/doctest.h>

#include "fixtures/example_bundle.hpp"
#include "support/bundle/bundle_reader.hpp"

using namespace kernwright;
using namespace kernwright::support;
using namespace kernwright::tests;

namespace {

using Members = std::vector<RawMember>;

/// The bytes in pieces of this size, counting those that were asked for.
ByteSource in_pieces(const std::string& bytes, std::size_t piece, std::size_t* taken = nullptr) {
  return [&bytes, piece, taken, at = std::size_t{0}]() mutable -> Result<std::span<const std::byte>> {
    const auto next = as_bytes(std::string_view(bytes).substr(at, piece));
    at += next.size();
    if (taken != nullptr) *taken = at;
    return next;
  };
}

/// "accepted", or the reason.
std::string reading(const std::string& bundle, const BundleLimits& limits = {}, std::size_t piece = 100'000) {
  const auto read = read_bundle(
      in_pieces(bundle, piece), [](const BundleMember&) { return Result<>(); }, limits);
  if (read) return "accepted";
  return read.error().code == ErrorCode::malformed ? read.error().message : "another code: " + read.error().text();
}

void check_refused(const std::string& bundle, std::string_view part = {}) {
  const std::string reason = reading(bundle);
  CHECK_MESSAGE(reason.find(part) != std::string::npos, reason);
  CHECK(reason != "accepted");
}

/// The archive with `bytes` in front of its second member.
std::string with_extension(const std::string& bytes) {
  const Members members = example_bundle();
  std::string archive = tar_member(members[0]) + bytes;
  for (std::size_t i = 1; i < members.size(); ++i) archive += tar_member(members[i]);
  return zstd_frame(archive + tar_end());
}

std::string extension(char type, const std::string& content, const std::string& name = "././@PaxHeader") {
  return tar_member({.name = name, .content = content, .type = type});
}

Members with(std::size_t index, const std::function<void(RawMember&)>& change) {
  Members members = example_bundle();
  change(members[index]);
  return members;
}

}  // namespace

TEST_CASE("bundle archive: pieces of any size are read alike") {
  const std::string bundle = bundle_file(example_bundle());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{512}, bundle.size()}) {
    CHECK(reading(bundle, {}, piece) == "accepted");
  }
}

TEST_CASE("bundle archive: headers that are not plain are refused") {
  constexpr std::string_view kPart = "tar header that is not plain ustar with owner 0, mode 0644 and time 0";
  const std::vector<std::function<void(RawMember&)>> changes{
      [](RawMember& member) { member.mode = "000755 "; },
      [](RawMember& member) { member.mode = "004755 "; },
      [](RawMember& member) { member.mode = "0000644"; },
      [](RawMember& member) { member.uid = "001750 "; },
      [](RawMember& member) { member.gid = "001750 "; },
      [](RawMember& member) { member.mtime = "14000000000 "; },
      [](RawMember& member) { member.uname = "root"; },
      [](RawMember& member) { member.gname = "wheel"; },
      [](RawMember& member) { member.link = "somewhere"; },
      [](RawMember& member) {
        member.devices = std::string(
            "000010 \0"
            "000003 \0",
            16);
      },
      [](RawMember& member) { member.magic = std::string("ustar  \0", 8); },
      [](RawMember& member) { member.magic = std::string(8, '\0'); },
      [](RawMember& member) { member.size = " " + octal(member.content.size(), 10) + " "; },
      [](RawMember& member) { member.size = octal(member.content.size(), 11) + std::string(1, '\0'); },
      [](RawMember& member) {
        member.size =
            "\x80" + std::string(9, '\0') + static_cast<char>(member.content.size() >> 8) + static_cast<char>(member.content.size() & 0xff);
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    check_refused(bundle_file(with(2, changes[i])), kPart);
    check_refused(bundle_file(with(0, changes[i])), kPart);
  }
  check_refused(bundle_file(with(2, [](RawMember& member) { member.wrong_sum = 1; })), "Damaged tar archive");
  check_refused(bundle_file(with(0, [](RawMember& member) { member.wrong_sum = 1; })), "no tar archive");
}

TEST_CASE("bundle archive: sizes that lie are refused") {
  const auto sized = [](const std::string& size) { return bundle_file(with(2, [&](RawMember& member) { member.size = size; })); };
  check_refused(sized(octal(0, 11) + " "), "member 'entries/");
  check_refused(sized(octal(100, 11) + " "), "member 'entries/");
  check_refused(sized(octal(100'000, 11) + " "), "member 'entries/");
  check_refused(sized("77777777777 "), "8589934591 bytes; at most 268435456 are legal");
  check_refused(sized("\x80" + std::string(3, '\0') + "\x7f" + std::string(7, '\xff')), "size overflow");
  check_refused(sized("\xff" + std::string(11, '\xff')), "negative size");
  check_refused(sized("xxxxxxxxxxx "), "member 'entries/");
}

TEST_CASE("bundle archive: extension headers are refused, even those that change nothing") {
  const Members members = example_bundle();
  const std::string plain = "tar header that is not plain ustar";
  check_refused(with_extension(extension('x', pax_record("path", members[1].name))), plain);
  check_refused(with_extension(extension('x', pax_record("path", "../../etc/passwd"))), plain);
  check_refused(with_extension(extension('x', pax_record("mtime", "0"))), plain);
  check_refused(with_extension(extension('x', pax_record("comment", "hidden words"))), plain);
  check_refused(with_extension(extension('x', pax_record("size", "5"))), plain);
  check_refused(with_extension(extension('x', pax_record("linkpath", "/etc/passwd"))), "member 'compilers/");
  check_refused(with_extension(extension('x', pax_record("SCHILY.xattr.user.x", "y"))), plain);
  check_refused(with_extension(extension('x', pax_record("SCHILY.acl.access", "user::rwx,group::r--,other::r--"))), "member 'compilers/");
  check_refused(with_extension(extension('x', pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0"))));
  check_refused(with_extension(extension('x', "nonsense")));
  check_refused(with_extension(extension('g', pax_record("path", "x"))), plain);
  check_refused(with_extension(extension('g', pax_record("comment", "hidden words"))), plain);
  check_refused(with_extension(extension('L', "../../etc/passwd", "././@LongLink")), plain);
  check_refused(with_extension(extension('L', members[1].name + std::string(1, '\0'), "././@LongLink")), plain);
  check_refused(with_extension(extension('K', "/etc/passwd", "././@LongLink")));
  check_refused(with_extension(extension('A', std::string("1000002\0user::rwx", 17), "acl")));
  check_refused(with_extension(extension('V', "", "volume")));
  check_refused(with_extension(extension('M', "", "rest")));
  // Larger than libarchive holds, and many of them.
  check_refused(with_extension(extension('x', pax_record("comment", std::string(3 << 20, 'x')))));
  std::string large;
  for (int i = 0; i < 8; ++i) large += extension('x', pax_record("comment", std::string(1'000'000, 'x')));
  check_refused(with_extension(large), "an extension header in it is too large after member 'bundle.toml'");
  std::string many;
  for (int i = 0; i < 100; ++i) many += extension('x', pax_record("comment", std::string(1000, 'x')));
  check_refused(with_extension(many));
  check_refused(with_extension(extension('g', pax_record("comment", "x")) + extension('x', pax_record("path", members[1].name))), plain);
  // GNU's sparse file: a map in the header's last third, here of one piece that is the whole.
  RawMember sparse = members[2];
  sparse.type = 'S';
  sparse.magic = std::string("ustar  \0", 8);
  std::string header = tar_header(sparse);
  header.replace(386, 24, octal(0, 11) + " " + octal(sparse.content.size(), 11) + " ");
  header.replace(483, 12, octal(sparse.content.size(), 11) + " ");
  header.replace(148, 8, "        ");
  int sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, octal(static_cast<std::uint64_t>(sum), 6) + std::string("\0 ", 2));
  std::string archive = tar_member(members[0]) + tar_member(members[1]) + header + tar_member(members[2]).substr(512);
  check_refused(zstd_frame(archive + tar_member(members[3]) + tar_member(members[4]) + tar_end()), "member 'entries/");
}

TEST_CASE("bundle archive: padding, ends and what follows them") {
  const Members members = example_bundle();
  const std::string archive = tar_archive(members);
  const std::string body = archive.substr(0, archive.size() - 1024);
  check_refused(bundle_file(with(2, [](RawMember& member) { member.padding = 'x'; })), "not stored as one plain piece");
  check_refused(bundle_file(with(4, [](RawMember& member) { member.padding = 'x'; })), "not stored as one plain piece");
  check_refused(zstd_frame(body), "is cut short after member 'fits/");
  check_refused(zstd_frame(body + std::string(512, '\0')), "is cut short after member 'fits/");
  check_refused(zstd_frame(archive.substr(0, archive.size() - 1)), "is cut short after member 'fits/");
  check_refused(zstd_frame(archive + std::string(1, '\0')), "bytes follow the end of the tar archive in it after member 'fits/");
  check_refused(zstd_frame(archive + std::string(8192, '\0')), "bytes follow the end of the tar archive");
  check_refused(zstd_frame(archive + "x"), "bytes follow the end of the tar archive");
  check_refused(zstd_frame(archive + archive), "bytes follow the end of the tar archive");
  check_refused(zstd_frame(body + std::string(512, '\0') + body + tar_end()), "bytes follow the end of the tar archive");
  // Cut anywhere.
  for (std::size_t length = 0; length < archive.size(); length += 97) {
    CAPTURE(length);
    CHECK(reading(zstd_frame(archive.substr(0, length))) != "accepted");
  }
}

TEST_CASE("bundle archive: exactly one zstd frame, and nothing before or behind it") {
  const std::string archive = tar_archive(example_bundle());
  const std::string frame = zstd_frame(archive);
  const std::string skippable = std::string("\x50\x2a\x4d\x18\x04\x00\x00\x00", 8) + "evil";
  check_refused(frame + "x", "more bytes follow its zstd frame");
  check_refused(frame + std::string(100'000, '\0'), "more bytes follow its zstd frame");
  check_refused(frame + frame, "more bytes follow its zstd frame");
  check_refused(frame + zstd_frame(""), "more bytes follow its zstd frame");
  check_refused(frame + skippable, "more bytes follow its zstd frame");
  check_refused(zstd_frame(archive.substr(0, 700)) + zstd_frame(archive.substr(700)), "more bytes follow its zstd frame");
  check_refused(skippable + frame, "it is no zstd frame");
  check_refused(zstd_frame("") + frame, "more bytes follow its zstd frame");
  check_refused(zstd_frame(""), "no tar archive");
  check_refused(zstd_frame("hello"), "no tar archive");
  for (std::size_t length = 0; length < frame.size(); length += 13) {
    CAPTURE(length);
    CHECK(reading(frame.substr(0, length)) != "accepted");
  }
  check_refused(frame.substr(0, frame.size() - 1), "cut short");
  // A window of 16 MiB, a dictionary, a reserved bit.
  check_refused(zstd_frame_header(24) + zstd_raw_block(archive, true), "its zstd window is larger than 8 MiB");
  CHECK(reading(zstd_frame_header(23) + zstd_raw_block(archive, true)) == "accepted");
  check_refused(std::string("\x28\xb5\x2f\xfd\x01\x68\x07", 7) + zstd_raw_block(archive, true), "its zstd frame is damaged");
  check_refused(std::string("\x28\xb5\x2f\xfd\x08\x68", 6) + zstd_raw_block(archive, true), "its zstd frame is damaged");
}

TEST_CASE("bundle archive: a frame's checksum is checked") {
  const std::string archive = tar_archive(example_bundle());
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string frame(ZSTD_compressBound(archive.size()), '\0');
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), archive.data(), archive.size()));
  ZSTD_freeCCtx(context);
  CHECK(reading(frame) == "accepted");
  frame.back() = static_cast<char>(frame.back() ^ 1);
  check_refused(frame, "its zstd frame is damaged");
}

TEST_CASE("bundle archive: endless and huge content stops early") {
  const Members members = example_bundle();
  const std::string archive = tar_archive(members);
  std::string zeros;  // ten gigabytes in 320 KB
  for (int i = 0; i < 10 * 1024 * 8; ++i) zeros += zstd_zeros_block(i + 1 == 10 * 1024 * 8);
  const auto bytes_read = [](const std::string& bundle, std::string_view part) {
    std::size_t taken = 0;
    const auto read = read_bundle(in_pieces(bundle, 512, &taken), [](const BundleMember&) { return Result<>(); });
    REQUIRE_FALSE(read);
    CHECK_MESSAGE(read.error().message.find(part) != std::string::npos, read.error().message);
    return taken;
  };
  const std::string header = zstd_frame_header(20);
  // Nothing but zeros: an empty archive, followed by zeros.
  CHECK(bytes_read(header + zeros, "bytes follow the end of the tar archive in it") < 20'000);
  CHECK(bytes_read(header + zstd_raw_block(archive, false) + zeros, "bytes follow the end") < archive.size() + 20'000);
  // A member that promises more than is legal.
  RawMember huge = members[2];
  huge.content.clear();
  huge.size = "77777777777 ";
  const std::string front = tar_member(members[0]) + tar_member(members[1]) + tar_header(huge);
  CHECK(bytes_read(header + zstd_raw_block(front, false) + zeros, "at most 268435456 are legal") < front.size() + 20'000);
  // One that promises no more than is legal: its zeros are read, and no others.
  huge.size = octal(std::uint64_t{8} << 20, 11) + " ";
  const std::string within = tar_member(members[0]) + tar_member(members[1]) + tar_header(huge);
  CHECK(bytes_read(header + zstd_raw_block(within, false) + zeros, "member 'entries/") < within.size() + 20'000);
  // The limit of all, here a small one.
  CHECK(reading(zstd_frame(archive), {.archive = {archive.size()}}) == "accepted");
  CHECK(reading(zstd_frame(archive), {.archive = {archive.size() - 1}}).find("it unpacks to more than") != std::string::npos);
  CHECK(reading(zstd_frame(archive), {.members = 4}) == "accepted");
  CHECK(reading(zstd_frame(archive), {.members = 3}).find("one more than the 3 members") != std::string::npos);
}

TEST_CASE("bundle archive: files of other kinds are called what they are") {
  const std::string archive = tar_archive(example_bundle());
  const std::vector<std::pair<std::string, const char*>> files{
      {"", "it is empty"},
      {archive, "it is a tar archive without compression"},
      {std::string("\x1f\x8b\x08\x00", 4), "it is a gzip file"},
      {std::string("\xfd"
                   "7zXZ\0\0",
                   7),
       "it is an xz file"},
      {"BZh91AY&SY", "it is a bzip2 file"},
      {"PK\x03\x04", "it is a zip archive"},
      {std::string("\x7f"
                   "ELF\x02\x01",
                   6),
       "it is an ELF file"},
      {entry_bytes(example_artifact()), "it is one entry of a store"},
      {"format = 1\n", "it is a text file"},
      {std::string("\0\1\2\3", 4), "it is no zstd frame"},
  };
  for (const auto& [bytes, part] : files) check_refused(bytes, part);
}

TEST_CASE("bundle archive: the source's and the visitor's errors come through as they are") {
  const std::string bundle = bundle_file(example_bundle());
  const auto nothing = [](const BundleMember&) { return Result<>(); };
  int calls = 0;
  const auto read = read_bundle(
      [&]() -> Result<std::span<const std::byte>> {
        if (++calls == 1) return as_bytes(bundle).first(bundle.size() / 2);
        return fail(ErrorCode::io, "the disk is gone");
      },
      nothing);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::io);
  CHECK(read.error().message == "the disk is gone");
  const auto visited = read_bundle(in_pieces(bundle, 4096), [](const BundleMember&) { return fail(ErrorCode::timed_out, "enough"); });
  REQUIRE_FALSE(visited);
  CHECK(visited.error().code == ErrorCode::timed_out);
}
