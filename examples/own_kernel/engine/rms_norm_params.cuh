// The kernel's one argument: the same struct for the kernel and for the program that launches it.
#pragma once

namespace engine {

struct RmsNormParams {
  const float* x;       // [rows, hidden]
  const float* weight;  // [hidden]
  float* out;           // [rows, hidden]
  long long rows;       // 0: nothing to do, the kernel returns at once
  float epsilon;
};

}  // namespace engine
