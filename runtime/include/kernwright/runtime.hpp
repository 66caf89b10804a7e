// The runtime: options, devices, templates, prepare.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernwright/counters.hpp"
#include "kernwright/device.hpp"
#include "kernwright/device_memory.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/log.hpp"
#include "kernwright/recording.hpp"
#include "kernwright/result.hpp"
#include "kernwright/template_source.hpp"
#include "kernwright/warming.hpp"

namespace kernwright {

/// How the host interpreter runs a block's threads. See docs/embedding.md.
enum class HostMode : std::uint8_t {
  fibers,       ///< Fibers in a seeded random order between barriers; blocks over cores.
  fibers_asan,  ///< Shared memory as ordinary statics and one exact heap block, one worker: AddressSanitizer sees overruns.
  threads,      ///< One OS thread a CUDA thread, one block at a time: ThreadSanitizer sees races.
};
std::string_view to_string(HostMode mode) noexcept;  ///< "fibers", "fibers-asan", "threads"

struct HostOptions {
  std::optional<HostMode> mode;             ///< Else KERNWRIGHT_HOST_MODE, else fibers.
  std::optional<Bytes> shared_memory;       ///< Else KERNWRIGHT_HOST_SHARED_BYTES, else 232,448.
  std::optional<std::uint64_t> seed;        ///< Order of threads between barriers; else KERNWRIGHT_HOST_SEED, else 1.
  std::optional<std::string> compiler;      ///< Program name or path; else $CXX, else g++, else clang++.
  int workers = 0;                          ///< Threads that run blocks; 0: one a core.
  double compile_time_limit_seconds = 120;  ///< The compiler is killed after it.
};

/// A cache that many machines share, behind the stores. Every optional left empty falls back to its variable.
struct RemoteCacheOptions {
  std::optional<std::string> url;                 ///< redis://… or unix://…; else KERNWRIGHT_REMOTE, else there is none.
  std::optional<std::filesystem::path> key_file;  ///< The fleet's secret; needed. Else KERNWRIGHT_REMOTE_KEY_FILE.
  std::optional<std::string> name_space;          ///< Else KERNWRIGHT_REMOTE_NAMESPACE, else "kernwright".
  Bytes largest_entry = mebibytes(16);            ///< Larger ones are neither sent nor read.
  std::int64_t time_to_live_seconds = 0;          ///< What the server forgets an entry after; 0: never by itself.
};

/// Every optional left empty falls back to the environment variable named in docs/embedding.md, then to the default. A value set here wins.
struct RuntimeOptions {
  std::optional<std::filesystem::path> store;  ///< The writable store. Else KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME, HOME/.cache, TMPDIR.
  bool memory_only = false;                    ///< Use no disk store at all, the read-only ones neither.
  /// Asked before the writable store, in this order; never written to. Else KERNWRIGHT_CACHE_STORES (':'-separated).
  std::optional<std::vector<std::filesystem::path>> read_only_stores;
  /// The writable store is shared with other users who are trusted. Else KERNWRIGHT_CACHE_SHARED (0 or 1), else no.
  std::optional<bool> store_shared;
  /// What the writable store's entries may take; the least recently used leave. 0: any. Else KERNWRIGHT_CACHE_LIMIT (bytes, or with K, M,
  /// G), else 1 GiB.
  std::optional<Bytes> store_limit;
  /// Nothing is compiled: what no store holds is the error sealed_miss. Else KERNWRIGHT_SEALED (0 or 1), else no.
  std::optional<bool> sealed;
  /// Which of the compilers that stores list counts where none is used: "nvrtc 13.0", "13.0", or digits of its record's name. Else
  /// KERNWRIGHT_COMPILER, else all, the newest first.
  std::optional<std::string> compiler;
  double lock_wait_limit_seconds = 130;  ///< How long one process waits for another's build of the same key before it builds as well.
  /// A folder laid out like kernel_templates/ that is laid over the embedded templates: its files stand in place of embedded ones of the
  /// same path, a template of it in place of the embedded one of the same name; everything else stays as it is.
  std::optional<std::filesystem::path> template_folder;
  std::optional<std::filesystem::path> tuning_folder;       ///< Tables read before the embedded ones. Else KERNWRIGHT_TUNING_DIR.
  std::optional<std::filesystem::path> cuda_driver;         ///< libcuda.so.1. Else KERNWRIGHT_CUDA_DRIVER, else the loader's path.
  std::optional<std::filesystem::path> nvrtc;               ///< libnvrtc.so. Else KERNWRIGHT_NVRTC, else searched for.
  std::vector<std::filesystem::path> nvrtc_search_folders;  ///< Folders looked in before the usual places.
  std::optional<Bytes> shared_memory_limit;  ///< Lowers every device's opt-in limit: proves tiles of smaller devices on larger ones.
  /// One NVRTC compile is cancelled after it, where NVRTC has nvrtcSetFlowCallback (CUDA 12.8); an older one compiles without a limit.
  double compile_time_limit_seconds = 120;
  /// Compiles at once in this runtime, each taking up to 240 MB; more wait. 0: as many as this process's cores, CPU quota and memory allow.
  int compiles_at_once = 0;
  std::optional<RecordOptions> record;  ///< Calls that are saved to files. Else KERNWRIGHT_RECORD (OP:CALLS:FOLDER), else none.
  RemoteCacheOptions remote;
  HostOptions host;
  LogCallback log;                    ///< Empty: nothing is logged.
  std::optional<LogLevel> log_level;  ///< Else KERNWRIGHT_LOG, else warn.
};

struct PrepareRequest {
  std::string template_name;  ///< As the manifest names it, e.g. "sparse_mla/prefill".
  Specialisation specialisation;
  DeviceId device;
  std::optional<Tile> tile;      ///< Else the tuning tables', else the manifest's first that is legal.
  std::size_t params_bytes = 0;  ///< sizeof the caller's parameter struct; must equal the plan's.
  std::optional<Tile> after;     ///< Only candidates behind this one: where a launch was refused after prepare.
  friend bool operator==(const PrepareRequest&, const PrepareRequest&) = default;
};

/// A shared handle; every member is thread-safe. Opening it touches neither the driver, nor the compiler, nor a store, nor the remote cache
/// (only its key file is read): each is opened when first needed, and its error is the error of the call that needed it.
class Runtime {
 public:
  struct State;

  static Result<Runtime> create(RuntimeOptions options = {});

  /// CUDA devices in the driver's order. driver_unavailable where there is no driver.
  [[nodiscard]] Result<std::vector<DeviceInfo>> cuda_devices() const;
  [[nodiscard]] Result<DeviceInfo> device(DeviceId id) const;

  /// Adds a template beside Kernwright's own. A name that exists already with other content is invalid_argument.
  [[nodiscard]] Result<> register_template(const TemplateSource& source) const;
  /// Empty where RuntimeOptions::template_folder cannot be read; prepare and register_template answer with the reason.
  [[nodiscard]] std::vector<std::string> template_names() const;

  /// Slow, once a (template, specialisation, device, tile); later calls answer from memory. Tries the tile asked for, then the fall-backs.
  /// Errors: invalid_argument, not_found, unsupported, does_not_fit (every candidate, with each one's reason), compile_failed,
  /// compiler_unavailable, driver_unavailable, load_failed, launch_failed, timed_out, out_of_memory, device_fault, io, malformed,
  /// sealed_miss, internal.
  [[nodiscard]] Result<Kernel> prepare(const PrepareRequest& request) const;

  /// The same on a thread of the runtime's own, so that the caller never waits for a compiler: as many at once as compiles_at_once. When
  /// the last handle of the runtime goes, those under way are finished and those not begun answer with `unsupported`.
  [[nodiscard]] std::shared_future<Result<Kernel>> prepare_async(PrepareRequest request) const;

  /// Compiles into the store without loading; needs the compiler, not the device. One request, one compile at a time; the error is the
  /// request's own, a kernel's stands in its item.
  [[nodiscard]] Result<std::vector<WarmedItem>> warm(const WarmRequest& request) const;
  /// Many requests: all plan tables first, then all kernels, several at once, those that compile longest first. A request or kernel that
  /// fails is an item of the summary and stops nothing else. Errors: compiler_unavailable, at once; invalid_argument for the options.
  [[nodiscard]] Result<WarmSummary> warm_all(std::span<const WarmRequest> requests, const WarmOptions& options = {}) const;

  /// The requests of a launch list (TOML, docs/cache.md), checked against the templates. `targets`, where given, replace those at the
  /// list's top and narrow those of its launches. Errors: not_found, io, malformed and invalid_argument with the file's name and line.
  [[nodiscard]] Result<std::vector<WarmRequest>> read_launch_list(const std::filesystem::path& file,
                                                                  std::span<const Target> targets = {}) const;
  /// Writes the list of what this runtime has prepared so far: template, specialisation, target, and the tile where it was asked for by
  /// name. The file is replaced whole. Errors: io; invalid_argument where there is more than a list may hold.
  [[nodiscard]] Result<> write_launch_list(const std::filesystem::path& file) const;

  /// Waits until what was built has been sent to the remote cache, or the limit passes. Without one it returns at once.
  void flush_remote(double limit_seconds) const;

  [[nodiscard]] Counters counters() const;
  /// The writable store's folder, empty when memory only.
  [[nodiscard]] std::filesystem::path store_folder() const;
  /// All stores' folders in the order in which they are asked, the writable one last.
  [[nodiscard]] std::vector<std::filesystem::path> store_folders() const;
  [[nodiscard]] bool sealed() const noexcept;

  [[nodiscard]] Result<DeviceBuffer> allocate(DeviceId device, Bytes size) const;
  [[nodiscard]] Result<Stream> create_stream(DeviceId device) const;
  [[nodiscard]] Result<Event> create_event(DeviceId device) const;

  /// For the library's own ops and tools; not part of the stable interface.
  [[nodiscard]] State& state() const noexcept { return *state_; }
  explicit Runtime(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

}  // namespace kernwright
