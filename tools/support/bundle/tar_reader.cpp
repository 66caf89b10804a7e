#include "support/bundle/tar_reader.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <exception>
#include <utility>

#include "support/bundle/stream_comparison.hpp"
#include "support/bundle/tar_writer.hpp"

namespace kernwright::support {
namespace {

// libarchive reads at most 1 MiB of an extension header at once. What it takes beyond that without naming a member is nothing of ours.
constexpr std::size_t kMostAhead = std::size_t{4} << 20;

struct FreeArchive {
  void operator()(archive* handle) const noexcept { archive_read_free(handle); }
};

tl::unexpected<Error> bad(std::string reason) {
  return fail(ErrorCode::malformed, std::move(reason));
}

/// Empty for a regular file.
std::string_view kind_of(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) return "a hard link";
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG: return archive_entry_sparse_count(entry) > 0 ? "a sparse file" : std::string_view();
    case AE_IFLNK: return "a symbolic link";
    case AE_IFDIR: return "a folder";
    case AE_IFIFO: return "a FIFO";
    case AE_IFCHR:
    case AE_IFBLK: return "a device";
    case AE_IFSOCK: return "a socket";
    default: return "not a regular file";
  }
}

}  // namespace

std::string shown_name(std::string_view name) {
  constexpr std::size_t kShown = 80;
  std::string text = "'";
  for (const char c : name.substr(0, kShown)) {
    text += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text + (name.size() > kShown ? "…'" : "'");
}

struct TarReader::State {
  explicit State(ByteSource from)
      : source(std::move(from)), echo([this](std::span<const std::byte> bytes) {
          comparison.expect(bytes);
          return Result<>{};
        }) {}

  ByteSource source;
  std::optional<Error> problem;  ///< The source's, or why no more is given to libarchive.
  StreamComparison comparison;
  TarWriter echo;
  std::unique_ptr<archive, FreeArchive> handle;
  TarMember member;
  bool opened = false, ended = false;

  /// libarchive's callback: C, so nothing may be thrown through it.
  static la_ssize_t give(archive* /*handle*/, void* data, const void** bytes) noexcept {
    State& state = *static_cast<State*>(data);
    try {
      auto more = state.pull();
      if (more) {
        *bytes = more->data();
        return static_cast<la_ssize_t>(more->size());
      }
      state.problem = std::move(more.error());
    } catch (const std::exception& problem) {
      state.problem = Error{ErrorCode::out_of_memory, problem.what(), {}};
    }
    return -1;
  }

  Result<std::span<const std::byte>> pull() {
    if (comparison.ahead() > kMostAhead) return bad(fmt::format("an extension header in it is too large{}", last()));
    auto bytes = source();
    if (bytes) comparison.actual(*bytes);
    return bytes;
  }

  tl::unexpected<Error> failed(std::string_view doing) {
    if (problem) return fail(Error(*problem));
    const char* const words = handle == nullptr ? nullptr : archive_error_string(handle.get());
    return bad(fmt::format("{}: {}", doing, words == nullptr ? "damaged tar archive" : words));
  }

  Result<> open() {
    opened = true;
    handle.reset(archive_read_new());
    if (handle == nullptr || archive_read_support_format_tar(handle.get()) != ARCHIVE_OK ||
        archive_read_open2(handle.get(), this, nullptr, &State::give, nullptr, nullptr) != ARCHIVE_OK) {
      return failed(where());
    }
    return {};
  }

  [[nodiscard]] std::string last() const { return member.name.empty() ? "" : " after member " + shown_name(member.name); }
  [[nodiscard]] std::string where() const {
    return member.name.empty() ? "its zstd frame holds no tar archive" : "after member " + shown_name(member.name);
  }

  /// Ends the archive as TarWriter does, and sees to it that the source ends there too.
  Result<> end() {
    ended = true;
    if (auto finished = echo.finish(); !finished) return finished;
    while (comparison.equal() && comparison.ahead() == 0) {
      const auto more = pull();
      if (!more) return fail(Error(more.error()));
      if (!more->empty()) continue;
      if (comparison.missing() == 0) return {};
      return bad(fmt::format("the tar archive in it is cut short{}", last()));
    }
    return bad(fmt::format("bytes follow the end of the tar archive in it{}", last()));
  }
};

TarReader::TarReader(ByteSource source) : state_(std::make_unique<State>(std::move(source))) {}
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader& TarReader::operator=(TarReader&&) noexcept = default;
TarReader::~TarReader() = default;

Result<std::optional<TarMember>> TarReader::next() {
  State& state = *state_;
  if (!state.opened) {
    if (auto opened = state.open(); !opened) return fail(std::move(opened.error()));
  }
  if (state.ended) return std::nullopt;
  archive_entry* entry = nullptr;
  const int outcome = archive_read_next_header(state.handle.get(), &entry);
  if (outcome == ARCHIVE_EOF) {
    if (auto ended = state.end(); !ended) return fail(std::move(ended.error()));
    return std::nullopt;
  }
  // A warning says that libarchive had to guess.
  if (outcome != ARCHIVE_OK) return state.failed(state.where());
  const char* const name = archive_entry_pathname(entry);
  if (name == nullptr || *name == '\0') return bad(state.where() + ": a member has no name that can be read");
  state.member.name = name;
  if (const std::string_view kind = kind_of(entry); !kind.empty()) {
    return bad(fmt::format("member {} is {}; only regular files are legal", shown_name(name), kind));
  }
  if (archive_entry_size_is_set(entry) == 0 || archive_entry_size(entry) < 0) {
    return bad(fmt::format("member {} has no size", shown_name(name)));
  }
  state.member.size = {static_cast<std::uint64_t>(archive_entry_size(entry))};
  if (!state.echo.begin(name, state.member.size) || !state.comparison.equal()) {
    return bad(fmt::format("member {} has a tar header that is not plain ustar with owner 0, mode 0644 and time 0", shown_name(name)));
  }
  return state.member;
}

Result<std::vector<std::byte>> TarReader::content() {
  State& state = *state_;
  std::vector<std::byte> bytes;
  for (;;) {
    const void* piece = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int outcome = archive_read_data_block(state.handle.get(), &piece, &size, &offset);
    if (outcome == ARCHIVE_EOF) break;
    if (outcome != ARCHIVE_OK) return state.failed("member " + shown_name(state.member.name));
    if (static_cast<std::uint64_t>(offset) != bytes.size()) break;  // a hole, which the comparison finds too
    const std::span<const std::byte> more{static_cast<const std::byte*>(piece), size};
    bytes.insert(bytes.end(), more.begin(), more.end());
    if (auto written = state.echo.write(more); !written) return fail(std::move(written.error()));
  }
  auto ended = state.echo.end();
  if (!ended || bytes.size() != state.member.size.count || !state.comparison.equal()) {
    return bad(fmt::format("member {} is not stored as one plain piece", shown_name(state.member.name)));
  }
  return bytes;
}

}  // namespace kernwright::support
