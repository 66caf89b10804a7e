// Any text is a fit or refused; a fit that was read is written and read again as it was.
#include "fuzz_target.hpp"
#include "store/fit.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto fit = parse_fit({reinterpret_cast<const char*>(data), size});
  if (!fit) return 0;
  const auto again = parse_fit(write_fit(*fit));
  FUZZ_CHECK(again && *again == *fit);
  return 0;
}
