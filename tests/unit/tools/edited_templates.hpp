// The project's templates with a fault planted in one of them.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "fixtures/temporary_folder.hpp"

namespace kernwright::tests {

/// Copies the templates to FOLDER/templates, replaces the one place of `file` that says `from`, and answers the copy's folder.
inline std::filesystem::path edited_templates(const std::filesystem::path& folder, const std::string& file, const std::string& from,
                                              const std::string& to) {
  auto templates = folder / "templates";
  std::filesystem::copy(std::filesystem::path(KERNWRIGHT_SOURCE_FOLDER) / "kernel_templates", templates,
                        std::filesystem::copy_options::recursive);
  std::string text = read_file(templates / file);
  const std::size_t place = text.find(from);
  REQUIRE_MESSAGE(place != std::string::npos, file);
  REQUIRE_MESSAGE(text.find(from, place + 1) == std::string::npos, file);
  write_file(templates / file, text.replace(place, from.size(), to));
  return templates;
}

}  // namespace kernwright::tests
