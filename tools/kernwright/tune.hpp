// kernwright tune: what every family of kernels shares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "kernwright/warming.hpp"
#include "search/contest.hpp"
#include "search/measurement_json.hpp"
#include "search/search_space.hpp"
#include "search/table_writer.hpp"

namespace kernwright::tool {

/// The words that every family takes, as they were given.
struct TuneWords {
  OutputOptions output;
  std::string target;   ///< auto, host, or the target of a device here.
  std::string devices;  ///< Numbers of CUDA devices of one kind; empty: the first.
  std::string strategy = "exhaustive";
  std::optional<int> budget;
  std::uint64_t seed = 1;
  std::string out;      ///< The table; empty: FAMILY-DEVICE.toml here.
  std::string journal;  ///< Empty: the table's name with .journal.jsonl behind it.
  std::string report;   ///< An HTML file; empty: none.
  std::string template_folder;
  std::optional<int> repetitions, rounds;
  int jobs = 0;                 ///< 0: what the machine bears.
  double silence_seconds = 60;  ///< What counts as hanging.
};

/// What a family of kernels tells the tuner about itself; everything behind it is the same for all.
struct TuneFamily {
  std::string name;
  std::vector<tuning::Subject> subjects;
  /// Values of one parameter whose winners are timed against each other.
  struct Choice {
    std::string parameter;
    Specialisation known;               ///< The others, which the row of the table names.
    std::int64_t default_value = 0;     ///< What the op chooses where no table says anything.
    std::vector<std::size_t> subjects;  ///< One a value.
  };
  std::vector<Choice> choices;
  /// The parameter by which the report sets the subjects of one head count side by side.
  struct Comparison {
    std::string parameter;
    std::string symbol;   ///< As a chart names its values: "G".
    std::string meaning;  ///< As its caption does: "union G (1: one token at a time)".
  };
  Comparison comparison;
  std::vector<std::string> shapes;
  std::vector<std::string> input_digests;  ///< Of the files that shapes come from, in their order; empty where they are generated.
  /// What measurements depend on beside subjects, shapes, seed and counts, by name: part of what a journal is of.
  tuning::Json conditions = tuning::Json::object();
  tuning::Json bench;  ///< What the family's bench in a worker is told, see tuning_bench.hpp.
  /// What the subjects are launched together with; in the store before anything is measured.
  std::vector<WarmRequest> companions;
};

/// Runs the tuner from the words to the table: `make` says what the family is on the device that the words name.
ExitCode tune(const TuneWords& words, const std::function<Result<TuneFamily>(const DeviceInfo&)>& make);

struct TunedSubject {
  tuning::Contest contest;
  std::string digest;
  std::size_t offered = 0, illegal = 0, over_limits = 0, points = 0;
};
struct TunedParameter {
  TuneFamily::Choice choice;
  std::vector<tuning::Finalist> finalists;
  tuning::Decision decision;
};
struct TuneReport {
  tuning::Origin origin;
  std::string family, strategy;
  TuneFamily::Comparison comparison;
  std::uint64_t seed = 1;
  int repetitions = 0, warm_ups = 0, rounds = 0;
  std::vector<TunedSubject> subjects;
  std::vector<TunedParameter> parameters;
  std::filesystem::path table;  ///< Empty: none was written.
  std::filesystem::path journal;
  std::size_t resumed = 0, measured = 0, worker_starts = 0;
  double seconds = 0;
};
std::string text_of(const TuneReport& report);  ///< At most 100 columns.
std::string json_of(const TuneReport& report);

}  // namespace kernwright::tool
