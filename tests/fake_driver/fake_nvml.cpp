// NVML's entry points that are used, for tests: one device at 0000:01:00.0, whose clock goes down a step with every question and whose
// second answer and later ones say "power cap".
#include <cstring>

namespace {
int started = 0;
unsigned asked = 0;
}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML chose the names.
extern "C" {
int nvmlInit_v2() {
  ++started;
  asked = 0;
  return 0;
}
int nvmlShutdown() {
  --started;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (std::strcmp(address, "0000:01:00.0") != 0) return 6;  // NVML_ERROR_NOT_FOUND
  *device = &started;
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  if (started < 1 || device != &started || clock != 1) return 2;  // NVML_ERROR_INVALID_ARGUMENT; 1 is the SM's clock
  *mhz = 1980 - 15 * asked++;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = asked > 1 ? 0x4 : 0;
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
