// Decode over a unified pool whose pages move, once eagerly and once as a CUDA graph that was captured at the first step and is replayed at
// every later one. After each step the two must have the same bits, and some of them are compared with attention's definition.
//   decode_loop [--host] [--steps N] [--seed N]
// Runs on the first CUDA device, or on the host interpreter where --host asks for it; that has no graphs, and both engines run eagerly.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "engine.hpp"
#include "step_graph.hpp"

namespace {

using namespace kernwright;
using decode_loop::Engine;
using decode_loop::EngineOptions;
using decode_loop::StepGraph;

enum ExitCode : int { done = 0, wrong = 1, usage = 2, unable = 3 };

struct Words {
  bool host = false;
  std::int64_t steps = 200;
  std::uint64_t seed = 1;
};

std::optional<Words> parse(int argc, char** argv) {
  Words words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    const auto number = [&](auto& to) {
      const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), to);
      ++i;
      return problem == std::errc() && end == value.data() + value.size() && to > 0;
    };
    if (word == "--host") {
      words.host = true;
    } else if (!(word == "--steps" && number(words.steps)) && !(word == "--seed" && number(words.seed))) {
      std::fprintf(stderr, "%s is not known or lacks its number; legal are --host, --steps N, --seed N, N from 1\n",
                   argv[i < argc ? i : argc - 1]);
      return std::nullopt;
    }
  }
  return words;
}

/// An output is bf16, and so are attention's weights on their way to the products: a right row is about 0.005 off.
constexpr double kLegalDistance = 0.02;

Result<bool> run(const Words& words) {
  RuntimeOptions runtime_options;
  runtime_options.log = [](LogLevel level, std::string_view line) {
    std::fprintf(stderr, "%s: %.*s\n", to_string(level).data(), static_cast<int>(line.size()), line.data());
  };
  auto runtime = Runtime::create(runtime_options);
  if (!runtime) return fail(std::move(runtime.error()));
  EngineOptions options;
  options.device = words.host ? DeviceId::host() : DeviceId::cuda(0);
  options.seed = words.seed;
  auto eager = Engine::create(*runtime, options), replayed = Engine::create(*runtime, options);
  if (!eager) return fail(std::move(eager.error()));
  if (!replayed) return fail(std::move(replayed.error()));

  std::optional<StepGraph> graph;
  double worst = 0;
  for (std::int64_t step = 0; step < words.steps; ++step) {
    Result<> stepped = eager->prepare_step();
    if (stepped) stepped = eager->enqueue_step();
    if (stepped) stepped = replayed->prepare_step();
    if (stepped && !words.host && !graph) {
      auto captured = StepGraph::capture(replayed->stream(), [&] { return replayed->enqueue_step(); });
      if (captured) {
        graph.emplace(std::move(*captured));
      } else {
        stepped = fail(std::move(captured.error()));
      }
    }
    if (stepped) stepped = graph ? graph->replay(replayed->stream()) : replayed->enqueue_step();
    if (stepped) stepped = eager->synchronize();
    if (stepped) stepped = replayed->synchronize();
    if (!stepped) return fail(std::move(stepped.error()));
    const auto left = eager->outputs(), right = replayed->outputs();
    if (!left) return fail(Error(left.error()));
    if (!right) return fail(Error(right.error()));
    if (!(*left == *right)) {
      std::fprintf(stderr, "step %lld: the two runs differ\n", static_cast<long long>(step));
      return false;
    }
    const double distance = eager->distance_to_reference(*left);
    (void)replayed->distance_to_reference(*right);  // draws the same random numbers
    if (!(distance <= kLegalDistance)) {
      std::fprintf(stderr, "step %lld: attention is %g off its definition\n", static_cast<long long>(step), distance);
      return false;
    }
    worst = distance > worst ? distance : worst;
  }
  const Engine::Statistics seen = replayed->statistics();
  if (graph) {
    std::printf("one graph of %zu launches, replayed %lld times, equals the eager run bit for bit\n", graph->launches(),
                static_cast<long long>(words.steps));
  } else {
    std::printf("host has no graphs: two eager runs of %lld steps are equal bit for bit\n", static_cast<long long>(words.steps));
  }
  std::printf("%lld requests, %lld finished, up to %lld at once, %lld pages moved; attention at most %.4f off its definition\n",
              static_cast<long long>(seen.requests), static_cast<long long>(seen.finished), static_cast<long long>(seen.largest_batch),
              static_cast<long long>(seen.moved_pages), worst);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Words> words = parse(argc, argv);
  if (!words) return usage;
  const Result<bool> equal = run(*words);
  if (equal) return *equal ? done : wrong;
  std::fprintf(stderr, "%s\n", equal.error().text().c_str());
  if (equal.error().code == ErrorCode::driver_unavailable) std::fprintf(stderr, "add --host to run on the interpreter\n");
  return unable;
}
