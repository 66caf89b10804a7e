// The words of tune.
#include <string>

#include "command_line_parts.hpp"
#include "tune_worker.hpp"

namespace kernwright::tool {
namespace {

/// What every family takes. `repeated`: what a repetition is; `table`: what the default name of the table begins with.
void add_common_options(CLI::App& command, TuneWords& words, const std::string& repeated, const std::string& table) {
  CLI::Option* const target = command.add_option("--target", words.target, "auto, host, or the target of a device here (default: auto)");
  command.add_option("--devices", words.devices, "CUDA devices that share the work, all of one kind, e.g. 0,1 (default: the first)")
      ->excludes(target);
  command.add_option("--strategy", words.strategy, "exhaustive, random, or descent (one axis after the other, from the default)")
      ->capture_default_str();
  command.add_option("--budget", words.budget, "Tiles that are measured at most for one specialisation (default for random: 24)")
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--seed", words.seed, "Seed of the inputs and of every order")->capture_default_str();
  command.add_option("--repetitions", words.repetitions, "Timed " + repeated + " a shape (default 15 on a GPU, 3 on host)")
      ->check(CLI::Range(1, 100'000));
  command.add_option("--rounds", words.rounds, "Rounds of the finals (default 5 on a GPU, 3 on host)")->check(CLI::Range(2, 1000));
  command.add_option("--out", words.out, "The table, replaced when all is decided (default: " + table + "-DEVICE.toml here)");
  command.add_option("--journal", words.journal, "The journal (default: the table's name with .journal.jsonl behind it)");
  command.add_option(
      "--report", words.report,
      "Write what was decided as one HTML file with charts, which a browser opens offline: speed by shape, the space as a heat "
      "map, what failed and why, the noise. A finished run, asked again, writes it from its journal");
  command.add_option("--jobs", words.jobs, "Compiles at once (default: what processors, CPU quota and memory allow)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--hang-seconds", words.silence_seconds, "A tile whose step takes longer is killed and marked as hanging")
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  command.add_option("--templates", words.template_folder, kTemplatesHelp);
  add_output_options(command, words.output, true);
}

void add_sparse_mla(CLI::App& tune, TuneSparseMlaWords& words, Action& action) {
  CLI::App* const command = tune.add_subcommand(
      "sparse-mla",
      "Measure the tiles of sparse MLA prefill for every head count and union, in processes of their own, each tile checked against the\n"
      "CPU reference before it is timed. The best are timed again against the default, which stays unless one is faster by more than the\n"
      "noise. Every measurement is in the journal: the same words go on with an interrupted run. Exit code 1 where nothing could be "
      "decided\n"
      "for a specialisation. KERNWRIGHT_TUNING_DIR names the folder that tables are read from.");
  CLI::Option* const heads =
      command->add_option("--heads", words.heads, "Head counts from 1 to 128, comma-separated, and ranges")->capture_default_str();
  CLI::Option* const shapes = command->add_option(
      "--shapes", words.points.shapes, "Requests x tokens, comma-separated (default on a GPU 1x2048,1x4096,1x8192,2x4096,4x2048)");
  CLI::Option* const churn =
      command->add_option("--churn", words.points.churns, "Shares of its rows that a token replaces, comma-separated (default 0.05)");
  CLI::Option* const topk =
      command->add_option("--topk", words.points.topk, "K (default 2048 on a GPU, 32 on host)")->check(CLI::Range(1, 4096));
  CLI::Option* const input =
      command->add_option("--input", words.points.inputs, "safetensors files as for run, in place of generated shapes");
  for (CLI::Option* generated : {heads, shapes, churn, topk}) generated->excludes(input);
  command->add_option("--union", words.unions, "Unions to tune, comma-separated: 0 (off), 2, 4, 8, 16")->capture_default_str();
  add_common_options(*command, words.tune, "runs", "sparse_mla");
  command->callback([&] { action = [&] { return tune_sparse_mla(words); }; });
}

void add_paged_mla(CLI::App& tune, TunePagedMlaWords& words, Action& action) {
  CLI::App* const command = tune.add_subcommand(
      "paged-mla",
      "Measure the tiles of paged MLA decode, merge included, for every head count and number of new tokens, as tune sparse-mla does for\n"
      "prefill: in processes of their own, some requests of each batch compared with the CPU reference before it is timed, the best "
      "against\n"
      "the default, every measurement in the journal. Batches are read from static pools and rotated past the L2 cache. Exit code 1 where\n"
      "nothing could be decided for a specialisation. KERNWRIGHT_TUNING_DIR names the folder that tables are read from.");
  command->add_option("--heads", words.heads, "Head counts from 1 to 128, comma-separated, and ranges")->capture_default_str();
  command->add_option("--s-q", words.query_tokens, "New tokens of each request from 1 to 8, comma-separated, and ranges")
      ->capture_default_str();
  command->add_option("--page-size", words.page_size, "Tokens a page: 1, 2, 4, … 128")->capture_default_str();
  command->add_option("--shapes", words.shapes,
                      "Requests x tokens, comma-separated (default on a GPU, as far as its memory holds all of them: "
                      "1x4096,1x32768,16x32768,64x32768,128x4096)");
  add_common_options(*command, words.tune, "batches", "paged_mla");
  command->callback([&] { action = [&] { return tune_paged_mla(words); }; });
}

}  // namespace

void add_tune(CLI::App& app, TuneSparseMlaWords& sparse, TunePagedMlaWords& paged, Action& action) {
  CLI::App* const tune = app.add_subcommand("tune", "Search for the fastest tiles and write a tuning table");
  tune->require_subcommand(1);
  add_sparse_mla(*tune, sparse, action);
  add_paged_mla(*tune, paged, action);
  // What tune starts for itself; its words and answers are lines, see search/worker_measurer.hpp.
  CLI::App* const worker = app.add_subcommand(kTuneWorker)->group("");
  worker->callback([&] { action = [] { return tune_worker(); }; });
}

}  // namespace kernwright::tool
