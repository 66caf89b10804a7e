// The lines that reports for people are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernwright/device.hpp"
#include "kernwright/kernel.hpp"

namespace kernwright::tool {

/// "label      text\n"
std::string line(std::string_view label, std::string_view text);
/// A further line below it, without a label.
std::string more(std::string_view text);
/// "1 entry", "3 entries".
std::string counted(std::uint64_t count, std::string_view one, std::string_view several);
/// ", 168 registers"; empty on the interpreter, where there are none.
std::string registers_text(const PrepareReport& kernel);
/// How an artifact came: "compiled in 1.2 s", "hit in the store", …
std::string cache_text(const PrepareReport& kernel);
/// "2026-11-29 20:01:02 UTC"
std::string time_text(std::int64_t unix_seconds);
/// "cuda:0 NVIDIA H200, capability 9.0", or the interpreter.
std::string device_text(const DeviceInfo& device);

}  // namespace kernwright::tool
