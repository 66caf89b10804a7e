#include "search/worker_measurer.hpp"

#include <fmt/format.h>

namespace kernwright::tuning {
namespace {

/// The worker's word that nothing can be measured at all, as an error of this process.
Error fatal_error(const Json& said) {
  const auto message = said.find("fatal");
  const auto code = said.find("code");
  Error error{ErrorCode::internal, message != said.end() && message->is_string() ? message->get<std::string>() : "no reason given", {}};
  // Usage and machine are told apart by the exit code alone, so two codes are enough.
  if (code != said.end() && *code == to_string(ErrorCode::invalid_argument)) error.code = ErrorCode::invalid_argument;
  if (code != said.end() && *code == to_string(ErrorCode::out_of_memory)) error.code = ErrorCode::out_of_memory;
  return std::move(error).within("measuring");
}

}  // namespace

std::string WorkerLines::fatal(const Error& error) {
  return line_of({{"fatal", error.text()}, {"code", to_string(error.code)}});
}

std::string WorkerLines::answer(const Measurement& measurement, bool last) {
  return line_of({{"measurement", json_of(measurement)}, {"last", last}});
}

std::string WorkerLines::request(const Task& task, std::span<const double> give_up_ms) {
  return line_of({{"task", json_of(task)}, {"give_up_ms", std::vector<double>(give_up_ms.begin(), give_up_ms.end())}});
}

Result<WorkerRequest> parse_request(std::string_view line) {
  auto json = parse_line(line);
  if (!json) return fail(std::move(json.error()));
  const auto task = json->find("task");
  if (task == json->end() || !task->is_object()) return fail(ErrorCode::malformed, "a request has no task");
  auto read = task_of(*task);
  if (!read) return fail(std::move(read.error()));
  WorkerRequest request{std::move(*read), {}};
  for (const Json& limit : json->value("give_up_ms", Json::array())) {
    if (!limit.is_number()) return fail(ErrorCode::malformed, "give_up_ms holds something that is no number");
    request.give_up_ms.push_back(limit.get<double>());
  }
  return request;
}

Result<> WorkerMeasurer::ensure_worker() {
  if (worker_) return {};
  auto started = WorkerProcess::start(settings_.command);
  if (!started) return fail(std::move(started.error()));
  ++starts_;
  if (auto sent = (*started)->send(line_of(settings_.setup)); !sent) return sent;
  for (;;) {
    const WorkerProcess::Answer answer = (*started)->receive(settings_.start_seconds);
    if (answer.kind != WorkerProcess::Answer::Kind::line) return fail(ErrorCode::internal, "a worker did not come up: " + answer.text);
    const auto said = parse_line(answer.text);
    if (!said) return fail(ErrorCode::internal, "a worker came up with: " + answer.text);
    if (said->contains("fatal")) return fail(fatal_error(*said));
    if (said->contains("ready")) break;
  }
  worker_ = std::move(*started);
  return {};
}

/// A worker may have died between two requests; then another one gets this.
Result<> WorkerMeasurer::send(const std::string& line) {
  if (auto there = ensure_worker(); !there) return there;
  if (worker_->send(line)) return {};
  worker_.reset();
  if (auto there = ensure_worker(); !there) return there;
  return worker_->send(line);
}

Result<Measurement> WorkerMeasurer::measure(const Task& task, std::span<const double> give_up_ms) {
  using Kind = WorkerProcess::Answer::Kind;
  if (auto sent = send(WorkerLines::request(task, give_up_ms)); !sent) return fail(std::move(sent.error()));
  for (;;) {
    WorkerProcess::Answer answer = worker_->receive(settings_.silence_seconds);
    if (answer.kind != Kind::line) {
      worker_.reset();
      return Measurement{task, answer.kind == Kind::silent ? Outcome::hung : Outcome::faulted, std::move(answer.text), {}};
    }
    const auto said = parse_line(answer.text);
    if (!said) return fail(ErrorCode::internal, "a worker said: " + answer.text);
    if (said->contains("fatal")) return fail(fatal_error(*said));
    const auto measured = said->find("measurement");
    if (measured == said->end()) continue;  // a sign of life
    auto measurement = measurement_of(*measured);
    if (!measurement) return fail(std::move(measurement.error()).within("reading a worker's answer"));
    if (measurement->task.words() != task.words()) return fail(ErrorCode::internal, "a worker answered for another task");
    if (said->contains("last") && (*said)["last"] == true) worker_.reset();
    return measurement;
  }
}

}  // namespace kernwright::tuning
