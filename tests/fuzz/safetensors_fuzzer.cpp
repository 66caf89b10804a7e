// Any bytes are a safetensors file or refused; what was read keeps the format's promises.
#include "support/safetensors.hpp"

#include <algorithm>

#include "fuzz_target.hpp"

using namespace kernwright;
using namespace kernwright::support;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = parse_safetensors({reinterpret_cast<const std::byte*>(data), size}, "fuzzed");
  if (!header) {
    FUZZ_CHECK(header.error().code == ErrorCode::malformed);
    FUZZ_CHECK(header.error().message.starts_with("fuzzed"));
    return 0;
  }
  std::uint64_t end = 0;
  for (const SafetensorsEntry& tensor : header->tensors) {
    FUZZ_CHECK(tensor.begin == end && tensor.end >= tensor.begin);
    end = tensor.end;
    FUZZ_CHECK(std::ranges::all_of(tensor.shape, [](std::int64_t extent) { return extent >= 0; }));
    FUZZ_CHECK(header->find(tensor.name) == &tensor);
    if (!tensor.dtype) continue;
    unsigned __int128 bytes = static_cast<unsigned __int128>(element_bytes(*tensor.dtype));
    for (const std::int64_t extent : tensor.shape) {
      bytes *= static_cast<unsigned __int128>(extent);
      if (bytes > size && std::ranges::find(tensor.shape, 0) == tensor.shape.end()) std::abort();
    }
    FUZZ_CHECK(bytes == tensor.bytes());
  }
  FUZZ_CHECK(header->data_offset + end == size);
  return 0;
}
