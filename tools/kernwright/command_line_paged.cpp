// The words of the commands over paged KV.
#include "command_line_parts.hpp"

namespace kernwright::tool {

void add_run_paged_kv(CLI::App& run, RunPagedKvOptions& options, Action& action) {
  CLI::App* const command = run.add_subcommand(
      "paged-kv",
      "Run every paged KV kernel on a static pool and on a unified one: page moves, block table, token indices, translation in place, "
      "write\n"
      "locations, kv writes by virtual and by dense ids, paged MLA decode before and after compaction, zeroing. With --check all of it is\n"
      "compared with plain 64-bit code on the CPU. Times are of one launch each, by events (a clock on host).");
  CLI::Option* const input = command->add_option(
      "--input", options.input_file,
      "A safetensors file: req_to_token [slots, width] I32, requests and lengths [B] I64, q [B, s_q, H, 576 or 512] BF16, kv "
      "[V · page_size, d_qk] BF16, the row of each virtual token, page 0 being the sink, and optionally starts [B] I64; page_size (64), "
      "layers (1) and sm_scale (d_qk^(-1/2)) from its metadata. Without it: generated");
  command->add_option("--output", options.output_file,
                      "Write block_table, token_indices, write_locations, out and lse of each pool to a safetensors file");
  using Number = std::int64_t;
  const auto generated = [&](const char* name, std::optional<Number>& value, const char* help, Number low, Number high) {
    command->add_option(name, value, help)->check(CLI::Range(low, high))->excludes(input);
  };
  generated("--batch", options.batch, "Requests, padded lanes among them (default 24 on a GPU, 8 on host)", 1, 65'536);
  generated("--tokens", options.tokens, "Tokens of the longest request (default 4096 on a GPU, 100 on host)", 1, 16'777'216);
  generated("--page-size", options.page_size, "Tokens a page: 1, 2, 4, … 128 (default 64 on a GPU, 16 on host)", 1, 128);
  generated("--layers", options.layers, "L of the unified pool (default 3)", 1, 1024);
  generated("--heads", options.heads, "Query heads (default 16 on a GPU, 2 on host)", 1, 128);
  generated("--s-q", options.query_tokens, "New tokens of each request (default 1)", 1, 8);
  command->add_option("--seed", options.seed, "Seed of all that is random (default 1)")->excludes(input);
  command->add_option("--pools", options.pools, "static, unified, or both, comma-separated")->capture_default_str();
  command->add_option("--tile", options.tile, "Tile of the attention kernel, e.g. mma:m16n32s2w4 (default: from the tuning tables)");
  command->add_option("--target", options.target,
                      "auto (a CUDA device if there is one, else host), host, or the target of a device here (default: auto)");
  command->add_option("--templates", options.template_folder, kTemplatesHelp);
  command->add_option("--write-list", options.write_list,
                      "Write a launch list of what the run prepared to this file: warm --list makes it for other stores and targets");
  command->add_flag("--check", options.check, "Compare with the CPU reference; exit code 1 where something is wrong");
  add_output_options(*command, options.output, true);
  command->callback([&] { action = [&] { return run_paged_kv(options); }; });
}

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
  command->add_option("--templates", options.template_folder, kTemplatesHelp);
  command
      ->add_option(
          "--launches", options.launches,
          "How a batch of runs is launched: graph (captured once and replayed; default on a GPU) or stream (run by run; default on host)")
      ->check(CLI::IsMember({"graph", "stream"}));
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
