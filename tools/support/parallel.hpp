// Splits a loop over the machine's cores.
#pragma once

#include <cstdint>
#include <functional>

namespace kernwright::support {

/// Calls work(begin, end) on disjoint ranges of at most `grain` items that cover [0, count), from several threads, and waits for all.
/// Which thread gets which range is not defined. The first exception that `work` throws is thrown again here.
void parallel_ranges(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace kernwright::support
