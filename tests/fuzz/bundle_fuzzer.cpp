// Any file is a bundle or refused. Mutations go through the frame: the archive is unpacked, one of its members is changed, and checksums
// are made right again, so that what stands behind zstd, behind a tar header's sum and behind an entry's checksum is reached.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fixtures/raw_tar.hpp"
#include "fuzz_target.hpp"
#include "store/entry_format.hpp"
#include "support/bundle/bundle_reader.hpp"

using namespace kernwright;
using namespace kernwright::support;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed);

namespace {

constexpr std::size_t kLargestArchive = std::size_t{1} << 17;
constexpr BundleLimits kLimits{.archive = {kLargestArchive}, .members = 64};
constexpr std::size_t kBlock = 512;

struct Outcome {
  std::optional<BundleManifest> manifest;
  std::vector<std::pair<std::string, EntryKey>> members;
};

Outcome read(std::span<const std::byte> file, std::size_t piece) {
  Outcome outcome;
  const auto source = [&file, piece]() -> Result<std::span<const std::byte>> {
    const auto next = file.first(std::min(piece, file.size()));
    file = file.subspan(next.size());
    return next;
  };
  auto manifest = read_bundle(
      source,
      [&](const BundleMember& member) -> Result<> {
        outcome.members.emplace_back(text_of(member.name), member.digest);
        return {};
      },
      kLimits);
  if (manifest) {
    outcome.manifest = std::move(*manifest);
  } else {
    FUZZ_CHECK(!manifest.error().message.empty());
  }
  return outcome;
}

/// The archive of the first frame; nullopt where there is none, or a large one.
std::optional<std::string> archive_of(std::string_view file) {
  std::string archive(kLargestArchive, '\0');
  const std::size_t frame = ZSTD_findFrameCompressedSize(file.data(), file.size());
  if (ZSTD_isError(frame) != 0) return std::nullopt;
  const std::size_t size = ZSTD_decompress(archive.data(), archive.size(), file.data(), frame);
  if (ZSTD_isError(size) != 0) return std::nullopt;
  archive.resize(size);
  return archive;
}

/// Header and content, or a piece of the archive that is no member.
struct Piece {
  std::string header;
  std::string content;
};

std::vector<Piece> split(std::string_view archive) {
  std::vector<Piece> pieces;
  while (archive.size() >= kBlock && archive[0] != '\0') {
    std::size_t size = 0;
    for (const char digit : archive.substr(124, 11)) size = size * 8 + (static_cast<unsigned char>(digit) & 7U);
    const std::string header(archive.substr(0, kBlock));
    archive.remove_prefix(kBlock);
    size = std::min(size, archive.size());
    pieces.push_back({header, std::string(archive.substr(0, size))});
    archive.remove_prefix(std::min(archive.size(), (size + kBlock - 1) / kBlock * kBlock));
  }
  pieces.push_back({{}, std::string(archive)});
  return pieces;
}

void repair_header(std::string& header) {
  header.replace(148, 8, "        ");
  std::uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, tests::octal(sum, 6) + std::string("\0 ", 2));
}

std::string joined(const std::vector<Piece>& pieces) {
  std::string archive;
  for (const Piece& piece : pieces) {
    archive += piece.header + piece.content;
    if (!piece.header.empty()) archive.append((kBlock - piece.content.size() % kBlock) % kBlock, '\0');
  }
  return archive;
}

void mutate(std::string& bytes, std::size_t room) {
  const std::size_t size = bytes.size();
  bytes.resize(size + room + 1);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, size + room + 1));
}

void mutate_header(Piece& piece, std::mt19937& random) {
  // A field of the header, or any bytes of it.
  constexpr std::array<std::pair<std::size_t, std::size_t>, 10> kFields{
      {{0, 100}, {100, 8}, {108, 16}, {124, 12}, {136, 12}, {156, 1}, {157, 100}, {257, 8}, {345, 155}, {0, kBlock}}};
  const auto [at, length] = kFields[random() % kFields.size()];
  LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(piece.header.data()) + at, length, length);
  if (random() % 8 != 0) repair_header(piece.header);
}

void mutate_content(Piece& piece, std::mt19937& random) {
  mutate(piece.content, 64);
  piece.header.replace(124, 11, tests::octal(piece.content.size(), 11));
  repair_header(piece.header);
  if (random() % 4 != 0) {
    std::vector<std::byte> bytes(piece.content.size());
    std::memcpy(bytes.data(), piece.content.data(), bytes.size());
    repair_entry_checksum(bytes);
    std::memcpy(piece.content.data(), bytes.data(), bytes.size());
  }
}

/// An extension header in front of a member.
Piece extension(std::mt19937& random) {
  constexpr std::string_view kTypes = "xgXLKAVSDMN123456";
  const char type = kTypes[random() % kTypes.size()];
  std::string content = random() % 2 == 0 ? tests::pax_record("path", "../x") : tests::pax_record("GNU.sparse.major", "1");
  if (random() % 2 == 0) mutate(content, 32);
  return {tests::tar_header({.name = "././@PaxHeader", .content = content, .type = type}), content};
}

std::string mutated(const std::string& archive, std::mt19937& random) {
  std::vector<Piece> pieces = split(archive);
  const std::size_t index = random() % pieces.size();
  Piece& piece = pieces[index];
  const auto place = pieces.begin() + static_cast<std::ptrdiff_t>(index);
  if (piece.header.empty()) {
    mutate(piece.content, kBlock);
    return joined(pieces);
  }
  switch (random() % 8) {
    case 0:
    case 1: mutate_header(piece, random); break;
    case 2:
    case 3:
    case 4: mutate_content(piece, random); break;
    case 5: pieces.insert(place, extension(random)); break;
    case 6: {
      const Piece copy = pieces[random() % pieces.size()];
      pieces.insert(place, copy);
      break;
    }
    default: pieces.erase(place); break;
  }
  return joined(pieces);
}

}  // namespace

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  const auto archive = archive_of({reinterpret_cast<const char*>(data), size});
  if (!archive || random() % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string file = tests::zstd_frame(mutated(*archive, random));
  if (file.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file{reinterpret_cast<const std::byte*>(data), size};
  const Outcome whole = read(file, std::size_t{1} << 17);
  const Outcome again = read(file, 61);
  FUZZ_CHECK(whole.manifest == again.manifest);
  FUZZ_CHECK(whole.members == again.members);
  if (!whole.manifest) return 0;
  // Nothing passes that the members do not account for: one header each and their manifest's, in their order, and the end.
  FUZZ_CHECK(whole.members.size() == whole.manifest->entries + whole.manifest->fits + whole.manifest->compilers.size());
  FUZZ_CHECK(std::is_sorted(whole.members.begin(), whole.members.end(), [](const auto& a, const auto& b) { return a.first < b.first; }));
  const auto archive = archive_of({reinterpret_cast<const char*>(data), size});
  FUZZ_CHECK(archive);
  std::string rewritten;
  std::vector<Piece> pieces = split(*archive);
  FUZZ_CHECK(pieces.size() == whole.members.size() + 2 && pieces.back().content == tests::tar_end());
  pieces.pop_back();
  for (const Piece& piece : pieces) {
    const std::string name(piece.header.c_str());
    FUZZ_CHECK(rewritten.empty() ? name == "bundle.toml" : parse_member_name(name).has_value());
    rewritten += tests::tar_member({.name = name, .content = piece.content});
  }
  FUZZ_CHECK(rewritten + tests::tar_end() == *archive);
  return 0;
}
