// What is recorded: the option, else KERNWRIGHT_RECORD.
#pragma once

#include <optional>
#include <string_view>

#include "kernwright/recording.hpp"
#include "kernwright/result.hpp"
#include "platform/logger.hpp"

namespace kernwright {

/// "OP:CALLS:FOLDER", the form of KERNWRIGHT_RECORD; the folder may hold ':' itself. invalid_argument says what is legal.
Result<RecordOptions> parse_record(std::string_view text);

/// invalid_argument names the option.
Result<> check_record(const RecordOptions& options);

/// The options, else the variables KERNWRIGHT_RECORD and KERNWRIGHT_RECORD_LIMIT. Variables that are off are a warning and record nothing:
/// a process must not fail for what was only meant to watch it.
std::optional<RecordOptions> record_settings(const std::optional<RecordOptions>& options, const Logger& logger);

}  // namespace kernwright
