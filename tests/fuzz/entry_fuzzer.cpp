// Any bytes are an entry or refused. The prefix and the checksum are made right first, so that the reader behind them is reached.
#include <algorithm>
#include <vector>

#include "fixtures/example_artifact.hpp"
#include "fuzz_target.hpp"
#include "store/entry_format.hpp"
#include "store/entry_layout.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> file(size);
  std::transform(data, data + size, file.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
  const bool as_it_came = decode_entry(file).has_value();
  if (file.size() >= kEntryPrefixBytes) {
    std::transform(kEntryMagic.begin(), kEntryMagic.end(), file.begin(), [](char c) { return static_cast<std::byte>(c); });
    file[8] = std::byte{kEntryVersion};
    file[9] = file[10] = file[11] = std::byte{0};
    repair_entry_checksum(file);
  }
  const auto artifact = decode_entry(file);
  FUZZ_CHECK(artifact || !as_it_came);

  static const Artifact example = tests::example_artifact();
  const auto hit = decode_entry_for(file, {example.key, example.request, example.compiler});
  FUZZ_CHECK(!hit || hit->plans.size() == example.request.tiles.size());

  if (!artifact) return 0;
  const auto written = encode_entry(*artifact);
  FUZZ_CHECK(written);
  const auto again = decode_entry(*written);
  FUZZ_CHECK(again && again->binary == artifact->binary && again->log == artifact->log &&
             again->request.sources == artifact->request.sources);
  return 0;
}
