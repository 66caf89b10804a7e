// What every libFuzzer program begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

/// A broken promise of the code under test: libFuzzer keeps the input that led here.
#define FUZZ_CHECK(condition) \
  if (!(condition)) std::abort()

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
