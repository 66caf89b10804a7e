#include "kernwright/result.hpp"

namespace kernwright {

Error Error::within(std::string_view step) && {
  context = context.empty() ? std::string(step) : std::string(step) + " > " + context;
  return std::move(*this);
}

std::string Error::text() const {
  std::string line(to_string(code));
  line += ": ";
  line += message;
  if (!context.empty()) {
    line += " (while ";
    line += context;
    line += ')';
  }
  return line;
}

}  // namespace kernwright
