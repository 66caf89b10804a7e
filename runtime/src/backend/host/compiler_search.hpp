// Finds the system's C++ compiler and says which one it is.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright::host {

struct FoundCompiler {
  std::filesystem::path program;       ///< As found, links not followed: a driver looks at the name it is called by.
  std::vector<std::string> arguments;  ///< Words that $CXX has behind the program's name.
  std::string version;                 ///< First line of --version.
  std::string content_hash;            ///< Of the file that the links lead to.
  [[nodiscard]] bool is_clang() const { return version.find("clang") != std::string::npos; }
};

/// `setting`, else $CXX, else g++, else clang++ on PATH; where this library is built with a sanitizer by clang, that clang comes before
/// g++. compiler_unavailable says what was looked for; unsupported where the compiler cannot make objects for a sanitized program.
Result<FoundCompiler> find_compiler(const std::optional<std::string>& setting, double time_limit_seconds);

/// The environment a compiler is run with: PATH, HOME, LD_LIBRARY_PATH as they are, temporary files in `folder`, messages in English.
std::vector<std::string> compiler_environment(const std::filesystem::path& folder);

}  // namespace kernwright::host
