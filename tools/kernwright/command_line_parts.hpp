// What the units that read the command line share. They alone include CLI11, which costs seconds to compile.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "bench_paged_mla.hpp"
#include "console.hpp"
#include "run_paged_kv.hpp"
#include "tune_paged_mla.hpp"
#include "tune_sparse_mla.hpp"

namespace kernwright::tool {

/// Runs the subcommand that was chosen.
using Action = std::function<ExitCode()>;

inline constexpr const char* kTemplatesHelp =
    "A folder of templates that is laid over the built-in ones: templates of your own, or other files in place of built-in ones of the "
    "same "
    "path";

void add_output_options(CLI::App& app, OutputOptions& output, bool quiet);

/// run paged-kv
void add_run_paged_kv(CLI::App& run, RunPagedKvOptions& options, Action& action);
/// bench paged-mla
void add_bench_paged_mla(CLI::App& bench, BenchPagedMlaOptions& options, Action& action);

/// tune sparse-mla, tune paged-mla, and the hidden worker that both start
void add_tune(CLI::App& app, TuneSparseMlaWords& sparse, TunePagedMlaWords& paged, Action& action);

}  // namespace kernwright::tool
