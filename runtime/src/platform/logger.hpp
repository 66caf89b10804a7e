// The log callback with its level: a value that is passed down, never a global.
#pragma once

#include <string_view>
#include <utility>

#include "kernwright/log.hpp"

namespace kernwright {

class Logger {
 public:
  Logger() = default;
  Logger(LogCallback callback, LogLevel level) : callback_(std::move(callback)), level_(level) {}
  [[nodiscard]] bool enabled(LogLevel level) const noexcept { return callback_ && level <= level_; }
  void operator()(LogLevel level, std::string_view line) const {
    if (!enabled(level)) return;
    try {
      callback_(level, line);
    } catch (...) {
      // A callback that throws has broken its promise; what it was told about goes on all the same.
    }
  }

 private:
  LogCallback callback_;
  LogLevel level_ = LogLevel::warn;
};

}  // namespace kernwright
