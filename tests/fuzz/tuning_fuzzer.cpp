// Any text is a tuning table or refused whole.
#include "fuzz_target.hpp"
#include "tuning/tuning_table.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TuningTables tables;
  const auto added = tables.add({reinterpret_cast<const char*>(data), size}, "fuzz.toml", kernwright::TableOwner::user);
  DeviceInfo device;
  device.name = "NVIDIA H200";
  device.target = *Target::parse("sm_90a");
  const auto known = Specialisation().set("heads", 8).set("group_size", 8).set("dtype", DType::bf16);
  const TuningTables::Query query{"sparse_mla/prefill", known, device, "00112233445566778899aabbccddeeff"};
  const auto match = tables.tile(query);
  const auto preference = tables.preference(query, "group_size");
  const bool stale = !tables.stale_tile(query).empty() || !tables.stale_preference(query, "group_size").empty();
  FUZZ_CHECK(added || (!match && !preference && !stale));
  return 0;
}
