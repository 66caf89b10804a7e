// What every benchmark writes down beside its figures: where, when and with what they were measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernwright/runtime.hpp"

namespace kernwright::bench {

struct Options {
  std::string target;   ///< "cuda" or "host".
  std::string output;   ///< Empty: stdout.
  int repetitions = 0;  ///< 0: the benchmark's own number.
};

/// --target cuda|host (default: cuda where there is a device, else host), --repetitions N, --json F. invalid_argument names the word, and
/// not_found with an empty message means that only help was asked for, which has been printed.
Result<Options> parse_options(int argc, char** argv, const std::string& what);

/// Order statistics of samples in one unit.
struct Spread {
  double median = 0, smallest = 0, largest = 0, p95 = 0;
};
Spread spread(std::vector<double> samples);  ///< Zeros where there are no samples.

/// One JSON document: {"benchmark", "date", "version", "compiler", "cpu", "device": {…}, "driver", "nvrtc", "figures": …, "samples": …}.
struct Measurement {
  std::string benchmark;
  std::string command;  ///< That made it, from the tree's root.
  std::map<std::string, std::map<std::string, double>> figures;
  std::map<std::string, std::vector<double>> samples;
};
/// Writes it to the options' file or to stdout. `io` where that fails.
Result<> write(const Measurement& measurement, const Options& options, const Runtime& runtime, DeviceId device);

/// Prints the error on stderr and answers the program's exit code.
int report(const Error& error);

}  // namespace kernwright::bench
