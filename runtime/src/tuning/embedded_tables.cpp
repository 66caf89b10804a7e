#include "templates/embedded_file.hpp"
#include "tuning/tuning_table.hpp"

namespace kernwright {

std::vector<NamedText> embedded_tuning_tables() {
  std::vector<NamedText> tables;
  for (const EmbeddedFile& file : embedded_tuning_files()) tables.push_back({file.name, std::string(file.content)});
  return tables;
}

}  // namespace kernwright
