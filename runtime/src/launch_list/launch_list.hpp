// A launch list: which specialisations of which templates are to be warmed for which targets. TOML, format 1, see docs/cache.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/target.hpp"
#include "kernwright/tile.hpp"
#include "kernwright/warming.hpp"

namespace kernwright {

/// The most launches that a list may come to once lists and ranges of values are multiplied out, each counted once a target.
inline constexpr std::size_t kMostLaunches = 65'536;

/// One specialisation, its parameters in order of their names.
struct Launch {
  std::string template_name;
  Specialisation specialisation;
  std::vector<Target> targets;  ///< Its own; empty: the list's.
  std::optional<Tile> tile;     ///< Empty: the tuning tables', else the manifest's first.
  bool fall_backs = true;
  int line = 0;  ///< Of its [[launch]] in the file; 0: it stands in none.
};

struct LaunchList {
  std::vector<Target> targets;  ///< For launches that name none.
  std::vector<Launch> launches;
};

/// `malformed` names file, line and key, what came and what is legal.
Result<LaunchList> parse_launch_list(std::string_view toml, std::string_view file_name);

/// The canonical text: every launch once, sorted, with the targets it is for; targets that all of them share stand at the top. Read back it
/// is for the same launches. invalid_argument where the text would be larger than the reader takes.
Result<std::string> write_launch_list(const LaunchList& list);

/// A request for each launch and target. `given` targets replace those at the list's top and narrow those of a launch's own.
/// invalid_argument where a launch is left without a target, or no launch of a list that has some is for a target given.
Result<std::vector<WarmRequest>> launch_requests(const LaunchList& list, std::span<const Target> given, std::string_view file_name);

}  // namespace kernwright
