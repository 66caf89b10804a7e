// Progress of a long job on stderr.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace kernwright::support {

enum class ProgressStyle : std::uint8_t {
  none,   ///< Nothing.
  lines,  ///< A line a step: for files and pipes.
  bar,    ///< One line that is drawn anew: for terminals.
};

/// none where `quiet`; else bar where stderr is a terminal that can redraw a line, else lines.
ProgressStyle progress_style(bool quiet);

/// The bar's text: "label [#####.....] 3/8 detail", cut to `columns`.
std::string progress_bar(std::string_view label, std::int64_t done, std::int64_t total, std::string_view detail, std::size_t columns);

/// A job of a known number of steps. Thread-safe. The bar is wiped when the object goes.
class Progress {
 public:
  Progress(ProgressStyle style, std::string label, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  /// Says what is being worked on now; counts nothing.
  void working_on(std::string_view detail);
  /// One step is done.
  void step(std::string_view detail);
  /// A job whose number of steps is learnt on the way: the bar as it is now, nothing in other styles.
  void show(std::int64_t done, std::int64_t total, std::string_view detail);
  /// A line of such a job, nothing in other styles than lines.
  void say(std::string_view detail);
  /// Prints a line of its own, above the bar, in every style.
  void note(std::string_view line);

 private:
  void draw(std::string_view detail);
  void wipe();

  std::mutex mutex_;
  ProgressStyle style_;
  std::string label_;
  std::string detail_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool drawn_ = false;
};

}  // namespace kernwright::support
