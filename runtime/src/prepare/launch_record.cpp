#include "prepare/launch_record.hpp"

#include <fmt/format.h>

namespace kernwright {

void LaunchRecord::add(const PrepareReport& prepared, const std::optional<Tile>& tile_asked) {
  std::string words = fmt::format("{}\n{}\n{}\n{}", prepared.template_name, prepared.specialisation.text(), prepared.target.name(),
                                  tile_asked ? tile_asked->text() : "");
  const std::lock_guard lock(mutex_);
  launches_.try_emplace(std::move(words), Launch{prepared.template_name, prepared.specialisation, {prepared.target}, tile_asked, true, 0});
}

LaunchList LaunchRecord::list() const {
  LaunchList list;
  const std::lock_guard lock(mutex_);
  for (const auto& [words, launch] : launches_) list.launches.push_back(launch);
  return list;
}

}  // namespace kernwright
