// Any text is a tuning table or refused whole.
#include "fuzz_target.hpp"
#include "tuning/tuning_tables.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TuningTables tables;
  const auto added = tables.add({reinterpret_cast<const char*>(data), size}, "fuzz.toml", kernwright::TableOwner::user);
  DeviceInfo device;
  device.name = "NVIDIA H200";
  device.target = *Target::parse("sm_90a");
  const auto known = Specialisation().set("heads", 8).set("group_size", 8).set("dtype", DType::bf16);
  const TuningTables::Query query{"sparse_mla/prefill", known, device, "00112233445566778899aabbccddeeff"};
  const auto tiles = tables.tiles(query);
  const auto preferences = tables.preferences(query, "group_size");
  FUZZ_CHECK(added || (tables.all().empty() && tiles.empty() && preferences.empty()));
  return 0;
}
