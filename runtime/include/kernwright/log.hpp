// The log callback. The library prints nothing by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace kernwright {

enum class LogLevel : std::uint8_t { error, warn, info, debug };

std::string_view to_string(LogLevel level) noexcept;

/// Called with complete lines, possibly from several threads at once, never from a launch that succeeds at once.
/// Must not throw, and must not call back into the Runtime that it logs for.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

}  // namespace kernwright
