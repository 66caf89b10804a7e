// The words of the commands over paged KV.
#include "command_line_parts.hpp"

namespace kernwright::tool {

void add_bench_paged_mla(CLI::App& bench, BenchPagedMlaOptions& options, Action& action) {
  CLI::App* const command =
      bench.add_subcommand("paged-mla",
                           "Time paged MLA decode, merge included, on static pools and on unified ones whose pages compaction has "
                           "scattered, beside a copy that\n"
                           "is measured in the same run. Some requests of each batch are compared with the CPU reference before it is "
                           "timed, and the block table\n"
                           "of a large batch cell for cell; exit code 1 where something is wrong. Batches are rotated past the L2 cache.");
  command->add_option(
      "--points", options.points,
      "heads:requests x tokens, comma-separated, e.g. 8:16x32768,128:64x32768 (default on a GPU: those of docs/measurements)");
  command->add_option("--pools", options.pools, "static, unified, or both, comma-separated")->capture_default_str();
  command->add_option("--layers", options.layers, "L of the unified pools (default 8 on a GPU; fewer where memory holds no more)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--page-size", options.page_size, "Tokens a page: 1, 2, 4, … 128")->capture_default_str();
  command->add_option("--s-q", options.query_tokens, "New tokens of each request (default 1)")->check(CLI::Range(1, 8));
  command->add_option("--block-table", options.block_table,
                      "Requests x tokens of the block table that is timed, or none (default 256x131072 on a GPU)");
  command->add_option("--tile", options.tile, "Tile of the attention kernel (default: from the tuning tables)");
  command->add_option("--target", options.target, "auto, host, or the target of a device here (default: auto)");
  command->add_option("--templates", options.template_folder, "A folder of templates in place of the built-in ones");
  command->add_option("--repetitions", options.repetitions, "Timed batches a point (default 15 on a GPU, 3 on host)")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--seed", options.seed, "Seed of all that is random")->capture_default_str();
  command
      ->add_option("--matrix-tflops", options.matrix_tflops,
                   "bf16 rate to compare with (default: as measured on this kind of device, if known)")
      ->check(CLI::PositiveNumber);
  command->add_option("--json", options.json_file, "Write every sample to a JSON file; - for stdout, in place of the table");
  command->add_flag("--quiet", options.output.quiet, "No progress, notes or warnings on stderr; errors still");
  command->callback([&] { action = [&] { return bench_paged_mla(options); }; });
}

}  // namespace kernwright::tool
