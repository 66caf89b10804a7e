// A CUDA driver of our own for tests: a shared library with the entry points of libcuda.so.1 that the runtime uses, which keeps a model of
// devices, contexts, streams and kernels, and does what a test told it to. It runs nothing.
//
// A test opens the library with dlopen, asks it for `fake_cuda_control`, and gives its path as RuntimeOptions::cuda_driver.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fake_cuda {

struct Device {
  std::string name = "Fake H200";
  int major = 9;
  int minor = 0;
  int shared_memory_optin = 232448;
  int max_threads = 1024;
  int multiprocessors = 132;
  int l2 = 62914560;
  std::size_t memory = std::size_t{1} << 32;
};

struct Launch {
  unsigned grid[3] = {};
  unsigned block = 0;
  unsigned shared = 0;
  CUstream stream = nullptr;
  unsigned cluster = 0;  ///< 0: no attribute.
  bool programmatic = false;
  int device = -1;                ///< Of the context that the launch ran in.
  unsigned char params[64] = {};  ///< The first params_bytes bytes that the one kernel parameter points to.
};

class Control {
 public:
  virtual ~Control() = default;
  /// One default device, version 13.0, nothing scripted, counters at 0. Must not be called while objects made earlier are in use.
  virtual void reset() = 0;
  virtual void set_version(int version) = 0;
  virtual void set_devices(std::vector<Device> devices) = 0;
  virtual void set_params_bytes(std::size_t bytes) = 0;
  virtual void set_static_shared(int bytes) = 0;  ///< Of every kernel.
  virtual void set_occupancy(int blocks) = 0;     ///< -1: from the model.
  /// The named function answers `result` on its next `times` calls after `skip` more, and does nothing.
  virtual void script(const char* function, CUresult result, int times = 1, int skip = 0) = 0;
  /// The next launch faults: later waits, and then every call that needs a context, answer ILLEGAL_ADDRESS.
  virtual void fault_on_next_launch() = 0;
  /// A capture in global mode goes on somewhere in the process.
  virtual void set_global_capture(bool on) = 0;
  virtual bool capture_broken() const = 0;
  virtual void set_stream_capturing(CUstream stream, bool on) = 0;

  virtual int calls(const char* function) const = 0;
  virtual std::vector<Launch> launches() const = 0;
  virtual std::vector<int> shared_memory_limits() const = 0;  ///< Every value that MAX_DYNAMIC_SHARED_SIZE_BYTES was set to, in order.
  virtual int retained_contexts() const = 0;
  virtual int loaded_libraries() const = 0;
  virtual int live_streams() const = 0;

  /// What a host program would do itself.
  virtual CUstream make_stream(int device) = 0;
  virtual void make_current(int device) = 0;  ///< -1: no current context on this thread.
  virtual int current_device() const = 0;     ///< -1: none.
  virtual std::size_t stack_depth() const = 0;
  virtual CUstreamCaptureMode capture_mode() const = 0;  ///< Of this thread.
};

using ControlFunction = Control* (*)();  ///< The type of the exported `fake_cuda_control`.

}  // namespace fake_cuda
