#include "support/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace kernwright::support {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressStyle progress_style(bool quiet) {
  if (quiet) return ProgressStyle::none;
  const char* const terminal = std::getenv("TERM");
  const bool redraws = ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
  return redraws ? ProgressStyle::bar : ProgressStyle::lines;
}

std::string progress_bar(std::string_view label, std::int64_t done, std::int64_t total, std::string_view detail, std::size_t columns) {
  constexpr std::int64_t kWidth = 24;
  const std::int64_t filled = total > 0 ? std::clamp<std::int64_t>(done * kWidth / total, 0, kWidth) : kWidth;
  std::string text = fmt::format("{} [{:#>{}}{:.>{}}] {}/{} {}", label, "", filled, "", kWidth - filled, done, total, detail);
  if (text.size() > columns) text.resize(columns);
  return text;
}

Progress::Progress(ProgressStyle style, std::string label, std::int64_t total) : style_(style), label_(std::move(label)), total_(total) {}

Progress::~Progress() {
  const std::scoped_lock lock(mutex_);
  wipe();
}

void Progress::working_on(std::string_view detail) {
  const std::scoped_lock lock(mutex_);
  if (style_ == ProgressStyle::lines) print(fmt::format("{}: {}\n", label_, detail));
  draw(detail);
}

void Progress::step(std::string_view detail) {
  const std::scoped_lock lock(mutex_);
  ++done_;
  if (style_ == ProgressStyle::lines) print(fmt::format("{}: {}/{} {}\n", label_, done_, total_, detail));
  draw(detail);
}

void Progress::show(std::int64_t done, std::int64_t total, std::string_view detail) {
  const std::scoped_lock lock(mutex_);
  done_ = done;
  total_ = total;
  draw(detail);
}

void Progress::say(std::string_view detail) {
  const std::scoped_lock lock(mutex_);
  if (style_ == ProgressStyle::lines) print(fmt::format("{}: {}\n", label_, detail));
}

void Progress::note(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  wipe();
  print(fmt::format("{}\n", line));
  if (!detail_.empty()) draw(detail_);
}

void Progress::draw(std::string_view detail) {
  if (style_ != ProgressStyle::bar) return;
  detail_ = std::string(detail);
  // One column stays free: a full line would wrap on some terminals.
  print(fmt::format("\r\x1b[K{}", progress_bar(label_, done_, total_, detail_, terminal_columns() - 1)));
  drawn_ = true;
}

void Progress::wipe() {
  if (!drawn_) return;
  print("\r\x1b[K");
  drawn_ = false;
}

}  // namespace kernwright::support
