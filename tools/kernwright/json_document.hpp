// What the units that write JSON share. Fields of one meaning have one name in every document.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kernwright/kernel.hpp"

namespace kernwright::tool {

using Json = nlohmann::ordered_json;

/// Text from compilers and file names may be no UTF-8: what is not becomes U+FFFD. An infinity or a NaN becomes null.
inline std::string document(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// null where there is nothing to say.
inline Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

inline Json resources_json(const ResourceUse& use) {
  return {{"registers", use.registers},
          {"static_shared", use.static_shared.count},
          {"stack_frame", use.stack_frame.count},
          {"spill_stores", use.spill_stores.count},
          {"spill_loads", use.spill_loads.count}};
}

}  // namespace kernwright::tool
