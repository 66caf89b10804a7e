#include "command_line.hpp"

#include <sstream>
#include <string>

#include "bench_sparse_mla.hpp"
#include "cache.hpp"
#include "cache_bundle.hpp"
#include "cache_verify_sealed.hpp"
#include "command_line_parts.hpp"
#include "console.hpp"
#include "doctor.hpp"
#include "run_sparse_mla.hpp"
#include "trace.hpp"
#include "warm.hpp"

namespace kernwright::tool {
namespace {

constexpr const char* kEnvironment = R"(Environment:
  KERNWRIGHT_CACHE_DIR          the writable store, else XDG_CACHE_HOME/kernwright, else HOME/.cache/kernwright,
                                else a private folder in TMPDIR
  KERNWRIGHT_CACHE_STORES       read-only stores that are asked before it, separated by ':'
  KERNWRIGHT_CACHE_SHARED       1: other users, who are trusted, write to the writable store as well
  KERNWRIGHT_CACHE_LIMIT        what its entries may take: bytes, or with K, M, G, T (default 1G; 0: any)
  KERNWRIGHT_SEALED             1: nothing is compiled, and what no store holds is an error
  KERNWRIGHT_REMOTE             a Redis server that machines share behind the stores: redis://HOST:PORT or unix://PATH
  KERNWRIGHT_REMOTE_KEY_FILE    the secret that its entries are authenticated with
  KERNWRIGHT_REMOTE_NAMESPACE   the first part of its keys (default kernwright)
  KERNWRIGHT_COMPILER           which of the compilers that stores list counts where none is used
  KERNWRIGHT_TARGET             what --target means where it is not given
  KERNWRIGHT_TUNING_DIR         tuning tables that are read before the built-in ones
  KERNWRIGHT_RECORD             OP:CALLS:FOLDER: saves the first so many calls of an op, e.g. sparse_mla:3:/tmp/recordings
  KERNWRIGHT_RECORD_LIMIT       what all of them may take: bytes, or with K, M, G, T (default 4G)
  KERNWRIGHT_CUDA_DRIVER        libcuda.so.1
  KERNWRIGHT_NVRTC              libnvrtc.so
  KERNWRIGHT_HOST_MODE          fibers, fibers-asan or threads
  KERNWRIGHT_HOST_SEED          order of a block's threads between barriers on host
  KERNWRIGHT_HOST_SHARED_BYTES  shared memory of a block on host
  CXX                           the C++ compiler for host, else g++, else clang++
  KERNWRIGHT_LOG                error, warn, info or debug
Exit codes: 0 done; 1 the answer is wrong or a check failed; 2 the call's words are off; 3 this machine cannot do it;
  130 interrupted by Ctrl-C; 143 by SIGTERM)";

void add_run(CLI::App& app, RunSparseMlaOptions& options, RunPagedKvOptions& paged, Action& action) {
  CLI::App* const run = app.add_subcommand("run", "Run an operation on real or generated input");
  run->require_subcommand(1);
  CLI::App* const command = run->add_subcommand(
      "sparse-mla",
      "Run sparse MLA prefill: compile or fetch its kernels, fit them to the device, launch, time, and check against a CPU reference.\n"
      "On a GPU times are the median of 15 runs after 3, by events; on host, Kernwright's interpreter, of 3 after 1, by a clock.");
  CLI::Option* const input = command->add_option(
      "--input", options.input_file,
      "A safetensors file: q [T, H, 576 or 512] BF16, kv [S, d_qk] BF16, indices [T, K] I32, and optionally topk_length [T] I32 and "
      "attn_sink [H] F32; sm_scale from its metadata, else d_qk^(-1/2); or a recording (KERNWRIGHT_RECORD), as it is. Without it: q and kv "
      "of N(0, 1), indices a random walk");
  command->add_option("--output", options.output_file, "Write out [T, H, 512] BF16, max_logits and lse [T, H] F32 to a safetensors file");
  const auto generated = [&](CLI::Option* option) { option->excludes(input); };
  using Number = std::int64_t;
  generated(command->add_option("--tokens", options.tokens, "Tokens of a request (default 4096 on a GPU, 64 on host)")
                ->check(CLI::Range(Number{0}, Number{2'147'483'647})));
  generated(command->add_option("--batch", options.batch, "Requests (default 1)")->check(CLI::Range(Number{1}, Number{65'536})));
  generated(command->add_option("--heads", options.heads, "Query heads (default 8)")->check(CLI::Range(Number{1}, Number{128})));
  generated(
      command->add_option("--kv-rows", options.kv_rows, "KV rows that all requests share (default: each request has as many as tokens)")
          ->check(CLI::Range(Number{0}, Number{2'147'483'647})));
  generated(command->add_option("--topk", options.topk, "K, positions a token attends to (default 2048 on a GPU, 32 on host)")
                ->check(CLI::Range(Number{1}, Number{4096})));
  generated(
      command->add_option("--churn", options.churn, "Share of its rows that a token replaces (default 0.05)")->check(CLI::Range(0.0, 1.0)));
  generated(command->add_option("--seed", options.seed, "Seed of all that is random (default 1)"));
  command->add_option(
      "--union", options.union_word,
      "Tokens that share one gathered union of rows: auto, 0 (off), 2, 4, 8, 16 (default: what a recording used, else auto)");
  command->add_option(
      "--tile", options.tile,
      "Tile to ask for, e.g. mma:m64n32s2w8 (default: what a recording of the same target used, else from the tuning tables)");
  command->add_option("--target", options.target,
                      "auto (a CUDA device if there is one, else host), host, or the target of a device here (default: auto)");
  command->add_option("--templates", options.template_folder, kTemplatesHelp);
  command->add_option("--write-list", options.write_list,
                      "Write a launch list of what the run prepared to this file: warm --list makes it for other stores and targets");
  command->add_flag("--deterministic", options.deterministic, "Make a token's result depend on its own inputs only; turns union off");
  command->add_flag(
      "--check", options.check,
      "Compare with the CPU reference, and with the output that a recording holds: bit by bit where target, tile and union are the "
      "same; exit code 1 where the output is wrong");
  add_output_options(*command, options.output, true);
  command->callback([&] { action = [&] { return run_sparse_mla(options); }; });
  add_run_paged_kv(*run, paged, action);
}

void add_bench(CLI::App& app, BenchSparseMlaOptions& options, BenchPagedMlaOptions& paged, Action& action) {
  CLI::App* const bench = app.add_subcommand("bench", "Measure an operation over a list of shapes");
  bench->require_subcommand(1);
  CLI::App* const command = bench->add_subcommand("sparse-mla",
                                                  "Time sparse MLA prefill, everything from the indices to the output. Each shape is "
                                                  "checked against the CPU reference before it is timed;\n"
                                                  "exit code 1 where one is wrong. Inputs are rotated past the L2 cache, and each "
                                                  "measurement is made twice: control says how far they differ.");
  CLI::Option* const shapes =
      command->add_option("--shapes", options.points.shapes, "Requests x tokens, comma-separated, e.g. 1x8192,4x2048");
  CLI::Option* const churn = command->add_option(
      "--churn", options.points.churns, "Shares of its rows that a token replaces, comma-separated (default 0.02,0.05,0.10 on a GPU)");
  CLI::Option* const rows =
      command
          ->add_option("--spread-rows", options.points.spread_rows,
                       "KV rows of one more point, whose selections are spread over them (default 131072 on a GPU; 0: none)")
          ->check(CLI::Range(std::int64_t{0}, std::int64_t{2'147'483'647}));
  CLI::Option* const heads = command->add_option("--heads", options.heads, "Query heads")->check(CLI::Range(1, 128))->capture_default_str();
  CLI::Option* const topk =
      command->add_option("--topk", options.points.topk, "K (default 2048 on a GPU, 32 on host)")->check(CLI::Range(1, 4096));
  CLI::Option* const input =
      command->add_option("--input", options.points.inputs, "safetensors files as for run, in place of generated shapes");
  for (CLI::Option* generated : {shapes, churn, rows, heads, topk}) generated->excludes(input);
  command->add_option("--union", options.union_word, "auto, 0 (off), 2, 4, 8, 16")->capture_default_str();
  command->add_option("--tile", options.tile, "Tile of the attention kernel (default: from the tuning tables)");
  command->add_option("--target", options.target, "auto, host, or the target of a device here (default: auto)");
  command->add_option("--templates", options.template_folder, kTemplatesHelp);
  command->add_flag("--deterministic", options.deterministic, "One token at a time");
  command->add_option("--repetitions", options.repetitions, "Timed runs a point (default 15 on a GPU, 3 on host)")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--seed", options.points.seed, "Seed of the generated inputs")->capture_default_str();
  command
      ->add_option("--peak-tflops", options.peak_tflops, "bf16 rate for the floor (default: as measured on this kind of device, if known)")
      ->check(CLI::PositiveNumber);
  command->add_option("--peak-tbps", options.peak_tbps, "Memory rate for the floor, TB/s (default likewise)")->check(CLI::PositiveNumber);
  command->add_option("--json", options.json_file, "Write every sample to a JSON file; - for stdout, in place of the table");
  command->add_option(
      "--report", options.report_file,
      "Write the figures as one HTML file with charts, which a browser opens offline: speed by shape beside floors and peers, "
      "and the noise");
  command->add_option("--peers", options.peer_files,
                      "JSON files with times of others, shown beside ours by the shape's name: {\"name\": …, \"points\": [{\"name\": …, "
                      "\"median_ms\": …}]}, or an earlier --json");
  command->add_flag("--quiet", options.output.quiet, "No progress, notes or warnings on stderr; errors still");
  command->callback([&] { action = [&] { return bench_sparse_mla(options); }; });
  add_bench_paged_mla(*bench, paged, action);
}

void add_trace(CLI::App& app, TraceOptions& options, Action& action) {
  CLI::App* const command = app.add_subcommand(
      "trace",
      "Print how large the unions of an input's tokens are for G = 2, 4, 8, 16: rows of a group (mean, p50, p99, largest), and their mean "
      "over\n"
      "the rows of one token. Says which G would pay, by a cost that is printed with it: a group's union is gathered once for every 64\n"
      "rows (G x heads) that are begun, so a token costs union x ceil(G x heads / 64) / G rows. The union's own building is not in it:\n"
      "a G that saves less than 5% does not count as paying. Beside it stands what --union auto means here (tuning tables, else its "
      "rule).");
  command->add_option("file", options.file, "A recording, or another safetensors file as for run --input")->required();
  command->add_option("--target", options.target,
                      "Of which device auto is asked: auto, host, or the target of a device here (default: auto)");
  add_output_options(*command, options.output, true);
  command->callback([&] { action = [&] { return trace(options); }; });
}

void add_warm(CLI::App& app, WarmWords& words, Action& action) {
  CLI::App* const command = app.add_subcommand("warm",
                                               "Compile kernels into the store, for targets that need not be here; needs no GPU. Without "
                                               "--list and --template: those of sparse MLA\n"
                                               "prefill with the given heads and unions, which as they stand are the default list. What is "
                                               "in the store already is not compiled again.");
  CLI::Option* const list = command->add_option("--list", words.list, "A launch list (TOML): what to warm, for which targets");
  CLI::Option* const kernel = command->add_option("--template", words.template_name, "One kernel's template, e.g. sparse_mla/prefill");
  command->add_option("--specialisation", words.specialisation, "Its constants, e.g. \"heads=8 group_size=8 d_qk=576 dtype=bf16\"")
      ->needs(kernel);
  command->add_option("--tile", words.tile, "Its tile, e.g. mma:m64n32s2w8 (default: from the tuning tables)")->needs(kernel);
  CLI::Option* const heads =
      command->add_option("--heads", words.heads, "Head counts from 1 to 128, comma-separated, and ranges: 8,16,32 or 1-128")
          ->capture_default_str();
  CLI::Option* const unions =
      command
          ->add_option("--union", words.unions,
                       "Unions, comma-separated: auto (what an op would choose for the target), 0 (off), 2, 4, 8, 16")
          ->capture_default_str();
  list->excludes(kernel)->excludes(heads)->excludes(unions);
  kernel->excludes(heads)->excludes(unions);
  CLI::Option* const targets = command->add_option(
      "--target", words.targets,
      "Targets, comma-separated: host, sm_80, sm_90a, … With --list: in place of the list's, and only those of its launches");
  CLI::Option* const device =
      command->add_flag("--for-device", words.for_device, "The targets, limits and tuned tiles of the devices that are here")
          ->excludes(targets);
  command->add_flag("--no-fallbacks", words.no_fallbacks,
                    "Only the first tile of each kernel that fits, not those that a step-down would go to");
  command->add_option("--jobs", words.jobs, "Compiles at once (default: what processors, CPU quota and memory allow)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--templates", words.template_folder, kTemplatesHelp);
  command
      ->add_option("--write-list", words.write_list,
                   "Write what would be warmed as a launch list to this file (-: stdout), and compile nothing")
      ->excludes(device);
  add_output_options(*command, words.output, true);
  command->callback([&] { action = [&] { return warm(words); }; });
}

struct CacheWords {
  CacheListOptions ls;
  CacheShowOptions show;
  CacheVerifyOptions verify;
  CachePruneOptions prune;
  CacheOptions clear;
  VerifySealedWords sealed;
  bool is_sealed = false;
  CachePackOptions pack;
  CacheUnpackOptions unpack;
};

/// A cache subcommand with what all of them take.
template <class Options>
CLI::App* add_cache_command(CLI::App& cache, const char* name, const char* help, Options& options, ExitCode (*run)(const Options&),
                            Action& action) {
  CLI::App* const command = cache.add_subcommand(name, help);
  add_output_options(*command, options.output, false);
  command->add_option("--store", options.store, "This folder alone (default: the stores of the environment)");
  command->callback([&action, &options, run] { action = [&options, run] { return run(options); }; });
  return command;
}

void add_cache_show(CLI::App& cache, CacheShowOptions& options, Action& action) {
  using What = CacheShowOptions::What;
  CLI::App* const show =
      add_cache_command(cache, "show", "Show an entry: constants, tile, target, plan, resource use, compiler; or one part of it", options,
                        &cache_show, action);
  show->add_option("key", options.key, "The entry's name, or at least 4 of its first digits")->required();
  CLI::Option_group* const part = show->add_option_group("part", "One part in place of the summary");
  part->require_option(0, 1);
  part->add_option_function<std::string>(
          "--source",
          [&](const std::string& name) {
            options.what = What::source;
            options.source = name;
          },
          "The stored sources, all of them or the one of this name")
      ->expected(0, 1)
      ->type_name("[NAME]");
  const auto flag = [&](const char* name, What what, const char* help) {
    part->add_flag_callback(
        name, [&options, what] { options.what = what; }, help);
  };
  flag("--log", What::log, "The compiler's log");
  flag("--ptx", What::ptx, "PTX, made again from the stored sources by the NVRTC that is here");
  flag("--sass", What::sass, "The binary's machine code, by nvdisasm");
  show->add_option("--binary", options.binary, "Write the binary (a cubin; on host a shared object) to this file");
}

void add_cache_prune(CLI::App& cache, CachePruneOptions& options, Action& action) {
  CLI::App* const prune = add_cache_command(cache, "prune",
                                            "Remove entries of the writable store that any of these rules names; what another process "
                                            "reads stays. Leftovers of killed processes go too",
                                            options, &cache_prune, action);
  prune->add_option("--limit", options.limit, "The least recently used, until all take at most this: bytes, or with K, M, G, T");
  prune->add_option("--unused-for", options.unused_for, "What was not used for so long: 30d, 12h, 90m");
  prune->add_option("--target", options.target, "What is for this target, fits too: host, sm_80, sm_90a, …");
  prune->add_flag("--other-compilers", options.other_compilers, "What other compilers made than those that are here");
  prune->add_flag("--leftovers", options.leftovers, "Leftovers only");
  prune->add_flag("--dry-run", options.dry_run, "Only say what would be removed");
}

void add_cache_verify_sealed(CLI::App& verify, CacheWords& words, Action& action) {
  CLI::Option* const sealed =
      verify.add_flag("--sealed", words.is_sealed, "Prove that a sealed process would find everything that a launch list asks for");
  CLI::Option* const list = verify.add_option("--list", words.sealed.list, "The launch list")->needs(sealed);
  sealed->needs(list);
  verify.add_option("--target", words.sealed.targets, "With --sealed: targets in place of the list's")->needs(sealed);
  verify.add_option("--templates", words.sealed.template_folder, std::string("With --sealed: ") + kTemplatesHelp)->needs(sealed);
  verify.callback(
      [&] { action = [&] { return words.is_sealed ? cache_verify_sealed(words.verify, words.sealed) : cache_verify(words.verify); }; });
}

void add_cache_bundles(CLI::App& cache, CacheWords& words, Action& action) {
  CLI::App* const pack =
      add_cache_command(cache, "pack", "Write entries, fits and compilers to one file; exit code 1 where a bad one had to be left out",
                        words.pack, &cache_pack, action);
  pack->add_option("file", words.pack.file, "The bundle, a zstd-compressed tar archive; a file that is there is replaced")->required();
  pack->add_option("--target", words.pack.targets, "Only these targets, comma-separated: host, sm_80, sm_90a, … (default: all)");
  CLI::App* const unpack = add_cache_command(cache, "unpack", "Check a bundle whole, then add to the writable store what it lacks",
                                             words.unpack, &cache_unpack, action);
  unpack->add_option("file", words.unpack.file, "The bundle")->required();
}

void add_cache(CLI::App& app, CacheWords& words, Action& action) {
  CLI::App* const cache = app.add_subcommand("cache", "Look into the stores, check them, or remove what is in the writable one");
  cache->require_subcommand(1);
  CLI::App* const ls =
      add_cache_command(*cache, "ls", "List entries, fits and compilers of every store, in the order in which a run asks them", words.ls,
                        &cache_list, action);
  ls->add_option("--template", words.ls.template_name, "Only this template, e.g. sparse_mla/prefill, or family, e.g. sparse_mla");
  ls->add_option("--target", words.ls.target, "Only this target: host, sm_80, sm_90a, …");
  add_cache_show(*cache, words.show, action);
  CLI::App* const verify = add_cache_command(
      *cache, "verify", "Read and check every file of every store, its name and rights; exit code 1 where something is bad", words.verify,
      &cache_verify, action);
  add_cache_verify_sealed(*verify, words, action);
  verify->add_flag("--remove-bad", words.verify.remove_bad, "Remove bad entries, fits and compiler records of the writable store");
  add_cache_prune(*cache, words.prune, action);
  add_cache_command(*cache, "clear", "Remove all entries, fits, compiler records and leftovers of the writable store, nothing else",
                    words.clear, &cache_clear, action);
  add_cache_bundles(*cache, words, action);
}

/// The subcommand as far as the words led, e.g. `kernwright run sparse-mla`.
const CLI::App& innermost(const CLI::App& app, std::string& words) {
  const CLI::App* current = &app;
  words = app.get_name();
  while (!current->get_subcommands().empty()) {
    current = current->get_subcommands().front();
    words += " " + current->get_name();
  }
  return *current;
}

/// What could have stood there: subcommands, else options.
std::string legal_words(const CLI::App& app) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  // Without a group a command is the program's own, and not for people.
  const auto shown = [](const CLI::App* candidate) { return !candidate->get_name().empty() && !candidate->get_group().empty(); };
  for (const CLI::App* command : app.get_subcommands(shown)) add(command->get_name());
  for (const CLI::Option* option : app.get_options()) add(option->get_name());
  return words;
}

}  // namespace

void add_output_options(CLI::App& app, OutputOptions& output, bool quiet) {
  app.add_flag("--json", output.json, "Print one JSON document on stdout");
  if (quiet) app.add_flag("--quiet", output.quiet, "No progress, notes or warnings on stderr; errors still");
}

int run_command_line(int argc, const char* const* argv) {
  CLI::App app("Kernwright: CUDA C++ kernel templates, specialised, compiled and cached at run time", "kernwright");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("kernwright ") + KERNWRIGHT_VERSION);
  app.footer(kEnvironment);

  Action action;
  OutputOptions doctor_output;
  CLI::App* const doctor_command = app.add_subcommand("doctor", "Say what works here, what would stop a run, and how to mend it");
  add_output_options(*doctor_command, doctor_output, false);
  doctor_command->callback([&] { action = [&] { return doctor(doctor_output); }; });
  RunSparseMlaOptions run_options;
  RunPagedKvOptions run_paged_options;
  add_run(app, run_options, run_paged_options, action);
  BenchSparseMlaOptions bench_options;
  BenchPagedMlaOptions bench_paged_options;
  add_bench(app, bench_options, bench_paged_options, action);
  TuneSparseMlaWords tune_words;
  TunePagedMlaWords tune_paged_words;
  add_tune(app, tune_words, tune_paged_words, action);
  TraceOptions trace_options;
  add_trace(app, trace_options, action);
  WarmWords warm_words;
  add_warm(app, warm_words, action);
  CacheWords cache_words;
  add_cache(app, cache_words, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    // --help and --version.
    std::ostringstream text;
    app.exit(asked, text, text);
    return static_cast<int>(finish(text.str(), ExitCode::done));
  } catch (const CLI::ParseError& error) {
    std::string words;
    const CLI::App& where = innermost(app, words);
    // CLI11 says that a subcommand is missing where a word is there that is none.
    const std::vector<std::string> strangers = app.remaining(true);
    const bool unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && !strangers.empty();
    const std::string problem = unknown ? "'" + strangers.front() + "' is no command" : std::string(error.what());
    return static_cast<int>(
        report_usage(problem + "\n  legal after '" + words + "': " + legal_words(where) + "\n  see " + words + " --help"));
  }
  return static_cast<int>(action());
}

}  // namespace kernwright::tool
