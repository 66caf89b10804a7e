// Recordings: real calls of a running process, saved to files that `kernwright run`, `bench`, `tune` and `trace` read. docs/recordings.md.
#pragma once

#include <filesystem>
#include <string>

#include "kernwright/units.hpp"

namespace kernwright {

/// The first so many calls of an op are saved. A call that is saved waits for nothing on the device: copies are enqueued behind it on its
/// stream, and a thread of the runtime's own writes the file. A call whose stream captures is not saved. Whatever goes wrong with a
/// recording is a warning of the log, and never an error of the call.
struct RecordOptions {
  std::string op = "sparse_mla";     ///< "sparse_mla" is the only op whose calls are recorded.
  int calls = 1;                     ///< 1 to 1,000,000.
  std::filesystem::path folder;      ///< Made where it is absent.
  Bytes limit = mebibytes(4 << 10);  ///< Of all files together. A call that does not fit in what is left is not saved.
};

}  // namespace kernwright
