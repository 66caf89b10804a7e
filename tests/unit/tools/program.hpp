// The built program under test: how it is run, and what its answers are checked with.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "unit/tools/child_process.hpp"

namespace kernwright::tests {

using Json = nlohmann::json;

/// The store that all tests of a build tree share: a host kernel takes seconds to compile.
inline std::string program_store() {
  const char* const store = std::getenv("KERNWRIGHT_TEST_STORE");
  return store != nullptr ? store : KERNWRIGHT_OWN_TEST_STORE;
}

/// Only this store, whatever the environment of the tests says.
inline ChildOptions in_store(const std::filesystem::path& store = program_store()) {
  ChildOptions options;
  options.environment = {{"KERNWRIGHT_CACHE_DIR", store.string()},
                         {"KERNWRIGHT_CACHE_STORES", ""},
                         {"KERNWRIGHT_CACHE_SHARED", ""},
                         {"KERNWRIGHT_CACHE_LIMIT", ""},
                         {"KERNWRIGHT_SEALED", ""},
                         {"KERNWRIGHT_COMPILER", ""},
                         {"KERNWRIGHT_TARGET", ""},
                         {"KERNWRIGHT_LOG", ""},
                         {"KERNWRIGHT_RECORD", ""},
                         {"KERNWRIGHT_RECORD_LIMIT", ""},
                         {"KERNWRIGHT_HOST_MODE", ""}};
  return options;
}

inline ChildResult kernwright_program(const std::vector<std::string>& words, const ChildOptions& options = in_store()) {
  ChildResult result = run_child(KERNWRIGHT_PROGRAM, words, options);
  INFO(result.err);
  CHECK(result.exited);
  return result;
}

inline std::vector<std::string> operator+(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
// The text is evaluated once, before the check: doctest evaluates a message again, under its reporter's lock, where a check within hangs.
#define CHECK_CONTAINS(text, part)                                                  \
  do {                                                                              \
    const std::string checked_text = (text);                                        \
    CHECK_MESSAGE(kernwright::tests::contains(checked_text, (part)), checked_text); \
  } while (false)

/// Ends with this code: the reason on stderr, nothing on stdout.
inline void check_error(int code, const std::vector<std::string>& words, const std::vector<std::string>& parts,
                        const ChildOptions& options) {
  const ChildResult result = kernwright_program(words, options);
  std::string line;
  for (const std::string& word : words) line += word + " ";
  CAPTURE(line);
  CHECK_MESSAGE(result.exit_code == code, result.err);
  CHECK(result.out.empty());
  CHECK_CONTAINS(result.err, "kernwright: error: ");
  for (const std::string& part : parts) CHECK_CONTAINS(result.err, part);
}

/// Refused as off words.
inline void check_refused(const std::vector<std::string>& words, const std::vector<std::string>& parts,
                          const ChildOptions& options = in_store()) {
  check_error(2, words, parts, options);
}

inline nlohmann::json json_of(const ChildResult& result) {
  nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  REQUIRE_MESSAGE(!json.is_discarded(), result.out << result.err);
  return json;
}

}  // namespace kernwright::tests
