#include "tuning/search_command.hpp"

namespace kernwright {

std::string_view search_command(std::string_view template_name) {
  if (template_name == "sparse_mla/prefill") return "kernwright tune sparse-mla";
  if (template_name == "paged_mla/decode") return "kernwright tune paged-mla";
  return {};
}

}  // namespace kernwright
