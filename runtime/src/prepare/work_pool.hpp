// Runs a list of jobs on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace kernwright {

/// Calls work(i) once for each i below `count`, begun in order, at most `threads` at once; the caller's thread is one of them. No thread
/// waits while a job is left. Once `stop` answers true nothing more is begun; what runs is finished. The first exception of a job is thrown
/// again here, after the others that were begun; it stops the rest. Where the system gives no more threads, those that there are do the
/// work.
void run_jobs(int threads, std::size_t count, const std::function<bool()>& stop, const std::function<void(std::size_t)>& work);

}  // namespace kernwright
