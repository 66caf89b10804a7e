#include "support/warm_text.hpp"

#include <fmt/format.h>

#include "support/format.hpp"

namespace kernwright::support {

std::string warm_bar_detail(const WarmProgress& progress) {
  std::string text = progress.planning ? "plans " : "";
  if (progress.seconds_left) text += fmt::format("{} left ", format_duration(*progress.seconds_left));
  if (progress.compiling.empty()) return text;
  text += progress.compiling.front();
  if (progress.compiling.size() > 1) text += fmt::format(" (and {} more)", progress.compiling.size() - 1);
  return text;
}

std::string warm_line(const WarmProgress& progress) {
  if (progress.finished == nullptr) return {};
  const WarmedItem& item = *progress.finished;
  std::string text = fmt::format("{}/{} {} {} {} {} {}", progress.done, progress.total, to_string(item.outcome), item.target.name(),
                                 item.template_name, item.specialisation.text(), item.tile.text());
  if (item.outcome == WarmOutcome::built) text += fmt::format(" in {}", format_milliseconds(item.compile_ms));
  if (progress.seconds_left && progress.done < progress.total) text += fmt::format(", {} left", format_duration(*progress.seconds_left));
  return text;
}

}  // namespace kernwright::support
