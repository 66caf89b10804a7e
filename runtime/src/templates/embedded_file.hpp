// Files compiled into the library by cmake/EmbedFiles.cmake.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernwright {

struct EmbeddedFile {
  std::string name;          ///< Path relative to the embedded folder, with '/'.
  std::string_view content;  ///< Lives as long as the program.
};

std::vector<EmbeddedFile> embedded_kernel_templates();  ///< kernel_templates/
std::vector<EmbeddedFile> embedded_tuning_files();      ///< tuning/tables/
std::vector<EmbeddedFile> embedded_simt_headers();      ///< runtime/src/backend/host/simt/

}  // namespace kernwright
