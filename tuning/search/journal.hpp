// The journal: every measurement on a line of its own, written as it is made, so that an interrupted run goes on where it was.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernwright/result.hpp"
#include "search/measurement.hpp"
#include "search/measurement_json.hpp"

namespace kernwright::tuning {

/// JSON lines. The first says what the run is: {"format":1,"kind":"kernwright tune","date":…,"run":{…}}; each further one is a measurement.
/// A last line without its end was cut off by a kill: it is dropped. Thread-safe.
class Journal {
 public:
  /// Makes the file, or reads it and goes on behind it. `run` is everything that measurements depend on: a journal of another run is
  /// refused, never mixed. `date` counts for a new file. Nobody else may have the journal open: its lock is held as long as this object
  /// lives. Errors: io; malformed with the line; invalid_argument for another run's journal, with what differs; unsupported where another
  /// process writes it.
  static Result<std::unique_ptr<Journal>> open(const std::filesystem::path& file, const Json& run, const std::string& date);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  /// What an earlier run, or this one, measured for the task; null: nothing yet. Stays valid.
  [[nodiscard]] const Measurement* find(const Task& task) const;
  /// One write of a whole line. io where it could not be written: then the file's end may be a torn line, which the next open drops.
  Result<> append(const Measurement& measurement);

  [[nodiscard]] std::size_t resumed() const noexcept { return resumed_; }   ///< Measurements that were there when it was opened.
  [[nodiscard]] const std::string& date() const noexcept { return date_; }  ///< When the run was begun.

 private:
  Journal(int descriptor, std::filesystem::path file) : descriptor_(descriptor), file_(std::move(file)) {}
  Result<> read(const Json& run);
  Result<> begin(const Json& run, const std::string& date);
  Result<> write_line(const Json& json);

  const int descriptor_;
  const std::filesystem::path file_;
  std::string date_;
  std::size_t resumed_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, Measurement, std::less<>> known_;  ///< By Task::words().
};

}  // namespace kernwright::tuning
