// Any text is a tuning table or refused whole.
#include "fuzz_target.hpp"
#include "tuning/tuning_table.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TuningTables tables;
  const auto added = tables.add({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  DeviceInfo device;
  device.name = "NVIDIA H200";
  device.target = *Target::parse("sm_90a");
  const auto known = Specialisation().set("heads", 8).set("group_size", 8).set("dtype", DType::bf16);
  const auto match = tables.tile("sparse_mla/prefill", known, device);
  const auto preference = tables.preference("sparse_mla/prefill", "group_size", known, device);
  FUZZ_CHECK(added || (!match && !preference));
  return 0;
}
