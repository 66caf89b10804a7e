// Any text is a launch list or refused; a list that was read is written as a text that is read as the same list.
#include "fuzz_target.hpp"
#include "launch_list/launch_list.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto list = parse_launch_list({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!list) {
    FUZZ_CHECK(list.error().code == ErrorCode::malformed && !list.error().message.empty());
    return 0;
  }
  FUZZ_CHECK(list->launches.size() <= kMostLaunches);
  const auto requests = launch_requests(*list, {}, "fuzz.toml");
  FUZZ_CHECK(!requests || (requests->size() <= kMostLaunches && requests->size() >= list->launches.size()));
  const auto text = write_launch_list(*list);
  if (!text) return 0;  // multiplied out it may be larger than the reader takes
  const auto again = parse_launch_list(*text, "again.toml");
  FUZZ_CHECK(again && again->launches.size() <= list->launches.size());
  const auto rewritten = write_launch_list(*again);
  FUZZ_CHECK(rewritten && *rewritten == *text);
  return 0;
}
