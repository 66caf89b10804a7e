// The project's templates with a fault planted in one of them.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "fixtures/temporary_folder.hpp"

namespace kernwright::tests {

/// A folder that holds `file` alone, to be laid over the built-in templates, where its one place that says `from` says `to`.
inline std::filesystem::path edited_templates(const std::filesystem::path& folder, const std::string& file, const std::string& from,
                                              const std::string& to) {
  const auto templates = folder / "templates";
  std::string text = read_file(std::filesystem::path(KERNWRIGHT_SOURCE_FOLDER) / "kernel_templates" / file);
  const std::size_t place = text.find(from);
  REQUIRE_MESSAGE(place != std::string::npos, file);
  REQUIRE_MESSAGE(text.find(from, place + 1) == std::string::npos, file);
  write_file(templates / file, text.replace(place, from.size(), to));
  return templates;
}

}  // namespace kernwright::tests
