#include "search/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace kernwright::tuning {
namespace {

constexpr int kJournalFormat = 1;
constexpr std::string_view kKind = "kernwright tune";

tl::unexpected<Error> journal_error(const std::filesystem::path& file, std::string_view step, int code) {
  return fail(ErrorCode::io, fmt::format("journal {}: {}: {}; choose a file that can be written with --journal", file.string(), step,
                                         std::generic_category().message(code)));
}

Result<std::string> whole_text(int descriptor, const std::filesystem::path& file) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return journal_error(file, "it cannot be read", errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

/// What differs between two runs, as "name: here …, in the journal …".
std::string difference(const Json& here, const Json& there) {
  for (const auto& [name, value] : here.items()) {
    const auto other = there.find(name);
    if (other == there.end()) return fmt::format("{}: here {}, not in the journal", name, line_of(value));
    if (*other != value) return fmt::format("{}: here {}, in the journal {}", name, line_of(value), line_of(*other));
  }
  return "it says more than this version knows";
}

bool has(const Json& json, const char* name, const Json& value) {
  const auto field = json.find(name);
  return field != json.end() && *field == value;
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::open(const std::filesystem::path& file, const Json& run, const std::string& date) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
  if (descriptor < 0) return journal_error(file, "it cannot be opened", errno);
  std::unique_ptr<Journal> journal(new Journal(descriptor, file));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return journal_error(file, "its status cannot be read", errno);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::io, fmt::format("journal {}: it is no regular file", file.string()));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return journal_error(file, "it cannot be locked", errno);
    return fail(ErrorCode::unsupported, fmt::format("journal {}: another process writes it; wait for that one, or give another file with "
                                                    "--journal",
                                                    file.string()));
  }
  if (auto done = journal->read(run); !done) return fail(std::move(done.error()));
  if (journal->date_.empty()) {
    if (auto done = journal->begin(run, date); !done) return fail(std::move(done.error()));
  }
  return journal;
}

Journal::~Journal() {
  ::close(descriptor_);
}

Result<> Journal::read(const Json& run) {
  auto text = whole_text(descriptor_, file_);
  if (!text) return fail(std::move(text.error()));
  std::size_t line_number = 0, from = 0;
  for (std::size_t end = text->find('\n'); end != std::string::npos; from = end + 1, end = text->find('\n', from)) {
    ++line_number;
    const auto where = [&](Error error) {
      return fail(ErrorCode::malformed, fmt::format("journal {}:{}: {}; it is no journal of this program, or was damaged: remove it, or "
                                                    "give another file with --journal",
                                                    file_.string(), line_number, error.message));
    };
    auto json = parse_line(std::string_view(*text).substr(from, end - from));
    if (!json) return where(std::move(json.error()));
    if (line_number == 1) {
      if (!has(*json, "kind", kKind) || !has(*json, "format", kJournalFormat) || !json->contains("run")) {
        return where(
            Error{ErrorCode::malformed, fmt::format("the first line must say kind \"{}\" and format {}", kKind, kJournalFormat), {}});
      }
      if ((*json)["run"] != run) {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("journal {} is of another run ({}): give the words it was begun with, remove it, or give another file with "
                                "--journal",
                                file_.string(), difference(run, (*json)["run"])));
      }
      date_ = json->contains("date") && (*json)["date"].is_string() ? (*json)["date"].get<std::string>() : "unknown";
      continue;
    }
    auto measurement = measurement_of(*json);
    if (!measurement) return where(std::move(measurement.error()));
    std::string words = measurement->task.words();
    known_.insert_or_assign(std::move(words), std::move(*measurement));
  }
  resumed_ = known_.size();
  // What a kill cut off: the next line must not be glued to it.
  if (from < text->size() && ::ftruncate(descriptor_, static_cast<off_t>(from)) != 0) {
    return journal_error(file_, "its torn last line cannot be removed", errno);
  }
  return {};
}

Result<> Journal::begin(const Json& run, const std::string& date) {
  date_ = date;
  return write_line({{"format", kJournalFormat}, {"kind", kKind}, {"date", date}, {"run", run}});
}

Result<> Journal::write_line(const Json& json) {
  const std::string line = line_of(json) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return journal_error(file_, "it cannot be written", errno);
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

const Measurement* Journal::find(const Task& task) const {
  const std::string words = task.words();
  const std::lock_guard lock(mutex_);
  const auto place = known_.find(words);
  return place == known_.end() ? nullptr : &place->second;
}

Result<> Journal::append(const Measurement& measurement) {
  const std::lock_guard lock(mutex_);
  if (auto written = write_line(json_of(measurement)); !written) return written;
  known_.insert_or_assign(measurement.task.words(), measurement);
  return {};
}

}  // namespace kernwright::tuning
