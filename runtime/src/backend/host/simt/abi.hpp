// What a compiled kernel and the interpreter share: plain structs of the C++ language alone, because this header is also compiled into
// every kernel object. A change of layout or meaning raises kAbiVersion.
#pragma once

namespace kw::simt {

inline constexpr unsigned kAbiVersion = 1;
inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxExchangeBytes = 256;  // a lane's value in warp_exchange

struct Index {
  unsigned x, y, z;
};

struct ThreadContext;

// Where a kernel called a primitive from; `file` is a string literal of the kernel's object.
struct Location {
  const char* file;
  unsigned line;
};

// The primitives as the interpreter implements them. They return when the thread may go on; a thread whose launch failed never returns
// into the kernel.
struct Primitives {
  void (*barrier)(ThreadContext*, unsigned id, unsigned threads, Location);
  // Every lane of `mask` gives `bytes` bytes; the answer is 32 values `bytes` apart, valid until this lane's next exchange. bytes 0: null.
  const void* (*exchange)(ThreadContext*, const void* mine, unsigned bytes, unsigned mask, Location);
  void (*async_copy)(ThreadContext*, void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes, Location);
  void (*async_commit)(ThreadContext*);
  void (*async_wait)(ThreadContext*, unsigned groups_left);
};

// One CUDA thread while it runs.
struct ThreadContext {
  Index thread;  // threadIdx
  Index block;   // blockIdx
  Index block_size;
  Index grid_size;
  unsigned dynamic_shared_bytes;
  void* dynamic_shared;
  const Primitives* primitives;
  void* scheduler;  // the interpreter's own
};

// What a kernel object exports, as `kw_simt_object`.
struct ObjectInterface {
  unsigned abi_version;
  unsigned params_bytes;                            // sizeof the entry's parameter; 0: it takes none
  void (*run)(ThreadContext*, const void* params);  // runs one CUDA thread to its end; `params` need not be aligned
  ThreadContext** (*current)();                     // the calling OS thread's variable that names the CUDA thread running on it
};

}  // namespace kw::simt
