#include "robustness/fleet.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <stdexcept>

namespace kernwright::robustness {

Fleet::Fleet(const FleetOptions& options) {
  std::vector<std::string> words = options.prefix;
  words.insert(words.end(), {KERNWRIGHT_COLD_LAUNCHER, options.store.string(), "--compiler", options.compiler.string()});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  const std::filesystem::path program = words.front();
  ProcessOptions each{{words.begin() + 1, words.end()}, {{"TMPDIR", options.folder.string()}}, barrier_.input(), {}};
  for (std::size_t i = 0; i < options.processes; ++i) {
    each.output = options.folder / fmt::format("launcher-{}", i);
    processes_.emplace_back(program, each);
  }
  const bool ready = wait_until(
      [&] { return std::ranges::all_of(processes_, [](const Process& process) { return process.output().starts_with("ready\n"); }); });
  if (!ready) throw std::runtime_error("a launcher did not come as far as its barrier: " + processes_.front().output());
}

Process& Fleet::process(pid_t id) {
  const auto found = std::ranges::find(processes_, id, &Process::id);
  if (found == processes_.end()) throw std::runtime_error(fmt::format("process {} is none of the fleet's", id));
  return *found;
}

std::vector<nlohmann::json> Fleet::reports() {
  std::vector<nlohmann::json> all;
  for (Process& process : processes_) {
    if (WIFSIGNALED(process.wait())) continue;
    const std::string said = process.output();
    const std::size_t begin = said.find('{');
    auto report = begin == std::string::npos ? nlohmann::json() : nlohmann::json::parse(said.substr(begin), nullptr, false);
    if (!report.is_object()) report = {{"right", false}, {"error", said}, {"warnings", nlohmann::json::array()}};
    all.push_back(std::move(report));
  }
  return all;
}

}  // namespace kernwright::robustness
