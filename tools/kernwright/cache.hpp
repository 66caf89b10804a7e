// kernwright cache ls, show, verify, clear
#pragma once

#include <memory>
#include <string>

#include "console.hpp"
// The store as it lies on disk is no part of the library's public interface; the program looks into it as the library does.
#include "store/store.hpp"

namespace kernwright::tool {

/// The writable store that a run would use. Creates nothing.
Result<std::unique_ptr<Store>> open_store();

ExitCode cache_list(const OutputOptions& output);
/// `key`: an entry's name, or at least 4 of its first digits.
ExitCode cache_show(const OutputOptions& output, const std::string& key);
/// Exit code 1 where an entry is bad.
ExitCode cache_verify(const OutputOptions& output);
ExitCode cache_clear(const OutputOptions& output);

}  // namespace kernwright::tool
