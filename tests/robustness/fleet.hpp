// Several cold launchers behind one barrier.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "robustness/process.hpp"

namespace kernwright::robustness {

struct FleetOptions {
  std::filesystem::path folder;  ///< For what they say and for their compilers' scratch files.
  std::filesystem::path store;
  std::filesystem::path compiler;
  std::vector<std::string> arguments;  ///< More of cold_launcher's.
  std::size_t processes = 16;
  /// Words before cold_launcher's, such as a program that starts it in another place; empty: none.
  std::vector<std::string> prefix;
};

class Fleet {
 public:
  /// Returns once all are ready and waiting.
  explicit Fleet(const FleetOptions& options);
  void go() { barrier_.open(); }
  [[nodiscard]] Process& process(pid_t id);
  /// Waits for all and returns what each reported, but for those that a signal ended. One that reported nothing has a "right" of false.
  std::vector<nlohmann::json> reports();

 private:
  Barrier barrier_;
  std::vector<Process> processes_;
};

}  // namespace kernwright::robustness
