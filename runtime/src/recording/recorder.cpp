#include "recording/recorder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "recording/row_copies.hpp"
#include "recording/safetensors_layout.hpp"

namespace kernwright {

/// The bytes of a file, in memory that the device copies into.
struct Recorder::Image {
  std::shared_ptr<Backend> backend;
  DeviceId device;
  void* data = nullptr;
  Bytes size;
  Image(std::shared_ptr<Backend> owner, DeviceId id, void* memory, Bytes bytes)
      : backend(std::move(owner)), device(id), data(memory), size(bytes) {}
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image() { backend->free_pinned(device, data); }
};

struct Recorder::Job {
  Image image;
  void* event = nullptr;
  std::filesystem::path file;
  bool complete = false;  ///< Every copy was enqueued; otherwise the memory is only kept until those that were have come.
  Job(std::shared_ptr<Backend> backend, DeviceId device, void* memory, Bytes size) : image(std::move(backend), device, memory, size) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    if (event != nullptr) image.backend->destroy_event(image.device, event);
  }
};

Recorder::Recorder(RecordOptions options, std::shared_ptr<FileSystem> files, std::shared_ptr<Clock> clock, Logger logger)
    : options_(std::move(options)),
      files_(std::move(files)),
      clock_(std::move(clock)),
      logger_(std::move(logger)),
      left_(options_.calls),
      left_bytes_(options_.limit) {}

Recorder::~Recorder() {
  if (!thread_.joinable()) return;
  if (fork_guard_.in_child()) {
    thread_.detach();  // it is the parent's
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Recorder::warn_once(const std::string& kind, const std::string& text) {
  {
    const std::lock_guard lock(warned_mutex_);
    if (!warned_.insert(kind).second) return;
  }
  logger_(LogLevel::warn, text);
}

void Recorder::record(const std::shared_ptr<Backend>& backend, const RecordedCall& call) noexcept {
  if (fork_guard_.in_child()) return;
  try {
    if (auto copied = copy(backend, call); !copied) {
      warn_once("copy", fmt::format("a call of {} could not be recorded: {}", options_.op, copied.error().text()));
    }
  } catch (const std::exception& thrown) {
    // The call itself has been enqueued; that its recording failed is no news for its caller.
    logger_(LogLevel::warn, thrown.what());
  }
}

Result<> Recorder::copy(const std::shared_ptr<Backend>& backend, const RecordedCall& call) {
  if (backend->is_capturing(call.stream)) {
    warn_once("capture", fmt::format("calls of {} while a stream captures are not recorded", options_.op));
    return {};
  }
  const std::lock_guard lock(recording_);
  if (!wants_more()) return {};
  RecordedCall taken = call;
  const auto layout_of = [&]() {
    std::vector<SafetensorsShape> shapes;
    for (const RecordedCall::Tensor& tensor : taken.tensors) {
      const auto rank = static_cast<std::size_t>(tensor.view.rank);
      shapes.push_back({tensor.name, tensor.view.dtype, {tensor.view.shape.begin(), tensor.view.shape.begin() + rank}});
    }
    return safetensors_layout(shapes, taken.metadata);
  };
  auto layout = layout_of();
  if (layout && layout->file_size > left_bytes_.count) {
    std::erase_if(taken.tensors, [](const RecordedCall::Tensor& tensor) { return tensor.output; });
    layout = layout_of();
  }
  if (!layout) return fail(std::move(layout.error()));
  if (layout->file_size > left_bytes_.count) {
    warn_once("size", fmt::format("a call of {} takes {} bytes, and {} of the recordings' {} are left: it is not recorded. "
                                  "KERNWRIGHT_RECORD_LIMIT allows more",
                                  options_.op, layout->file_size, left_bytes_.count, options_.limit.count));
    return {};
  }
  auto memory = backend->allocate_pinned(call.device, Bytes{layout->file_size});
  if (!memory) return fail(std::move(memory.error()));
  auto job = std::make_unique<Job>(backend, call.device, *memory, Bytes{layout->file_size});
  std::memcpy(*memory, layout->prefix.data(), layout->prefix.size());
  const int number = ++number_;
  job->file = options_.folder / fmt::format("{}-{:%Y%m%dT%H%M%SZ}-{}-{}.safetensors", options_.op,
                                            fmt::gmtime(static_cast<std::time_t>(clock_->unix_seconds())), ::getpid(), number);
  auto enqueued = enqueue(*job, taken, layout->offsets);
  job->complete = enqueued.has_value();
  if (enqueued) {
    left_bytes_.count -= layout->file_size;
    left_.fetch_sub(1, std::memory_order_relaxed);
  }
  hand_over(std::move(job));
  return enqueued;
}

/// The event stands behind whatever was enqueued, also where that was not all.
Result<> Recorder::enqueue(Job& job, const RecordedCall& call, const std::vector<std::uint64_t>& offsets) {
  Backend& backend = *job.image.backend;
  auto event = backend.create_event(call.device);
  if (!event) return fail(std::move(event.error()));
  job.event = *event;
  Result<> done;
  for (std::size_t i = 0; i < call.tensors.size() && done; ++i) {
    const auto copies = row_copies(call.tensors[i].view, static_cast<std::byte*>(job.image.data) + offsets[i]);
    if (!copies) {
      done = fail(Error(copies.error()).within("tensor " + call.tensors[i].name));
      continue;
    }
    for (const RowCopy& each : *copies) {
      if (done) done = backend.enqueue_copy_from_device(call.device, each, call.stream);
    }
  }
  auto marked = backend.record_event(call.device, job.event, call.stream);
  return done ? std::move(marked) : std::move(done);
}

bool Recorder::has_thread() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    warn_once("thread", fmt::format("no thread could be started for recordings: calls of {} wait for theirs", options_.op));
    return false;
  }
  return true;
}

void Recorder::hand_over(std::unique_ptr<Job> job) {
  if (!has_thread()) {
    finish(*job);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Recorder::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::unique_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    finish(*job);
    job.reset();
    lock.lock();
  }
}

void Recorder::finish(Job& job) noexcept {
  try {
    Result<> done;
    if (job.event != nullptr) done = job.image.backend->wait_for_event(job.image.device, job.event);
    if (!job.complete) return;
    if (!done) {
      warn_once("device", fmt::format("a call of {} was not recorded: {}", options_.op, done.error().text()));
      return;
    }
    done = files_->create_folders(options_.folder, 0755);
    if (done) done = files_->publish(job.file, {static_cast<const std::byte*>(job.image.data), job.image.size.count});
    if (done) {
      logger_(LogLevel::info, fmt::format("recorded {}", job.file.string()));
      return;
    }
    left_.store(0, std::memory_order_relaxed);
    warn_once("write",
              fmt::format("the recording {} could not be written: {}. No more calls are recorded", job.file.string(), done.error().text()));
  } catch (const std::exception& thrown) {
    logger_(LogLevel::warn, thrown.what());
  }
}

}  // namespace kernwright
