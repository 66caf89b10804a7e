#include "support/bundle/tar_writer.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace kernwright::support {
namespace {

constexpr int kMode = 0644;

struct FreeArchive {
  void operator()(archive* handle) const noexcept { archive_write_free(handle); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const noexcept { archive_entry_free(entry); }
};

}  // namespace

struct TarWriter::State {
  explicit State(ByteSink to) : sink(std::move(to)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // libarchive ends an archive that is freed before its end: into nothing here, since the sink may be gone.
  ~State() { open_to_sink = false; }

  ByteSink sink;
  bool open_to_sink = true;
  std::optional<Error> problem;  ///< The sink's first.
  std::unique_ptr<archive, FreeArchive> handle;

  /// libarchive's callback: C, so nothing may be thrown through it. An error is kept for check() and not answered: version 3.6 of
  /// libarchive leaks what it holds of an archive that has failed.
  static la_ssize_t take(archive* /*handle*/, void* data, const void* bytes, std::size_t size) noexcept {
    State& state = *static_cast<State*>(data);
    try {
      if (state.open_to_sink) {
        auto taken = state.sink({static_cast<const std::byte*>(bytes), size});
        if (!taken) state.problem = std::move(taken.error());
      }
    } catch (const std::exception& problem) {
      state.problem = Error{ErrorCode::out_of_memory, problem.what(), {}};
    }
    if (state.problem) state.open_to_sink = false;
    return static_cast<la_ssize_t>(size);
  }

  Result<> check(la_ssize_t outcome) {
    if (problem) return fail(Error(*problem));
    if (outcome >= ARCHIVE_OK) return {};
    const char* const words = handle == nullptr ? nullptr : archive_error_string(handle.get());
    return fail(ErrorCode::invalid_argument, fmt::format("libarchive cannot write it: {}", words == nullptr ? "out of memory" : words));
  }

  /// Opens the archive at the first use, so that the constructor cannot fail.
  Result<> open() {
    if (handle != nullptr) return {};
    handle.reset(archive_write_new());
    if (handle == nullptr) return check(ARCHIVE_FATAL);
    if (auto set = check(archive_write_set_format_ustar(handle.get())); !set) return set;
    // No blocking: the archive ends with its two empty blocks and is passed on as it is made.
    if (auto set = check(archive_write_set_bytes_per_block(handle.get(), 0)); !set) return set;
    return check(archive_write_open2(handle.get(), this, nullptr, &State::take, nullptr, nullptr));
  }
};

TarWriter::TarWriter(ByteSink sink) : state_(std::make_unique<State>(std::move(sink))) {}
TarWriter::TarWriter(TarWriter&&) noexcept = default;
TarWriter& TarWriter::operator=(TarWriter&&) noexcept = default;
TarWriter::~TarWriter() = default;

Result<> TarWriter::begin(std::string_view name, Bytes size) {
  if (auto opened = state_->open(); !opened) return opened;
  const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new2(state_->handle.get()));
  if (entry == nullptr) return fail(ErrorCode::out_of_memory, "not enough memory for a tar header");
  archive_entry_set_pathname(entry.get(), std::string(name).c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), kMode);
  archive_entry_set_uid(entry.get(), 0);
  archive_entry_set_gid(entry.get(), 0);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size.count));
  return state_->check(archive_write_header(state_->handle.get(), entry.get()));
}

Result<> TarWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const la_ssize_t count = archive_write_data(state_->handle.get(), bytes.data(), bytes.size());
    if (auto written = state_->check(count); !written) return written;
    if (count == 0) return fail(ErrorCode::internal, "a tar member got more bytes than its header says");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<> TarWriter::end() {
  return state_->check(archive_write_finish_entry(state_->handle.get()));
}

Result<> TarWriter::add(std::string_view name, std::span<const std::byte> content) {
  if (auto begun = begin(name, {content.size()}); !begun) return begun;
  if (auto written = write(content); !written) return written;
  return end();
}

Result<> TarWriter::finish() {
  if (auto opened = state_->open(); !opened) return opened;
  return state_->check(archive_write_close(state_->handle.get()));
}

}  // namespace kernwright::support
