#include "backend/cuda/nvrtc_compiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "backend/cuda/compile_log.hpp"
#include "elf/elf_reader.hpp"

namespace kernwright {

namespace {

using SteadyClock = std::chrono::steady_clock;

// What every compile passes. Part of the identity: other flags make other bytes. The last one runs no cache of NVRTC's own, whose hits
// come without the ptxas report (and for which NVRTC would open the driver).
constexpr std::array<const char*, 4> kOptions{"--std=c++20", "-default-device", "--no-source-include", "--ptxas-options=-v"};
constexpr const char* kNoCache = "--no-cache";

std::string supported_list(const Nvrtc& nvrtc) {
  std::string list;
  for (const int capability : nvrtc.architectures()) list += fmt::format("{}sm_{}", list.empty() ? "" : ", ", capability);
  return list;
}

std::string request_name(const BuildRequest& request) {
  std::string tiles;
  for (const Tile& tile : request.tiles) {
    if (request.kind == ArtifactKind::kernel) tiles += fmt::format(" {}", tile.text());
  }
  const std::string constants = request.specialisation.text();
  return fmt::format("{}{}{}{} for {}", request.template_name, constants.empty() ? "" : " [" + constants + "]", tiles,
                     request.kind == ArtifactKind::plans ? " (plans)" : "", request.target.name());
}

struct Deadline {
  SteadyClock::time_point at;
  // Called by NVRTC, from any thread of its own. Once past it stays past, as NVRTC asks.
  static int passed(void* self, void*) noexcept { return SteadyClock::now() >= static_cast<const Deadline*>(self)->at ? 1 : 0; }
};

std::string program_log(const NvrtcApi& api, nvrtcProgram program) {
  std::size_t size = 0;
  if (api.get_program_log_size(program, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::string log(size, '\0');
  if (api.get_program_log(program, log.data()) != NVRTC_SUCCESS) return {};
  while (!log.empty() && log.back() == '\0') log.pop_back();  // only the terminators: earlier NULs are followed by text
  return log;
}

Result<> check_request(const BuildRequest& request, const Nvrtc& nvrtc) {
  if (request.target.is_host()) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("{}: the target 'host' is not NVRTC's (a device below compute capability 8.0 has no target)", request_name(request)));
  }
  const std::string digits = request.target.name().substr(3);
  int capability = 0;
  for (const char c : digits) {
    if (c >= '0' && c <= '9') capability = capability * 10 + (c - '0');
  }
  if (!std::binary_search(nvrtc.architectures().begin(), nvrtc.architectures().end(), capability)) {
    return fail(ErrorCode::unsupported, fmt::format("{}: NVRTC {} does not compile for it; it knows {}. Use a newer CUDA toolkit",
                                                    request_name(request), nvrtc.version_text(), supported_list(nvrtc)));
  }
  if (request.sources.empty()) return fail(ErrorCode::internal, fmt::format("{}: the request holds no source", request_name(request)));
  for (const SourceFile& source : request.sources) {
    // NVRTC takes C strings: what follows a NUL would silently not be compiled.
    if (source.content.find('\0') != std::string::npos || source.name.find('\0') != std::string::npos)
      return fail(ErrorCode::compile_failed,
                  fmt::format("{}: '{}' holds a NUL byte; sources are plain text", request_name(request), source.name));
  }
  return {};
}

}  // namespace

NvrtcCompiler::NvrtcCompiler(NvrtcSearch search, double time_limit_seconds, Logger logger)
    : search_(std::move(search)), time_limit_seconds_(time_limit_seconds), logger_(std::move(logger)) {}

Result<CompilerIdentity> NvrtcCompiler::identity() {
  auto found = installation();
  if (!found) return fail(std::move(found.error()));
  return std::move(found->identity);
}

Result<NvrtcCompiler::Installation> NvrtcCompiler::installation() {
  const std::lock_guard lock(mutex_);
  return locate();
}

Result<NvrtcCompiler::Installation> NvrtcCompiler::locate() {
  if (installation_) return *installation_;
  auto file = find_nvrtc(search_);
  if (!file) return fail(std::move(file.error()));
  if (file->major != NvrtcSearch::kMajor) {
    logger_(LogLevel::warn,
            fmt::format("NVRTC {} was named; only {} is tested: {}", file->major, NvrtcSearch::kMajor, file->library.string()));
  }
  // Opening the library takes 5 ms, and above 100 when it is not in the page cache: only where its neighbours do not tell its version.
  NvrtcBuiltins builtins;
  if (auto beside = builtins_beside(*file)) {
    builtins = std::move(*beside);
  } else {
    auto library = open_library(*file);
    if (!library) return fail(std::move(library.error()));
    builtins = builtins_of(*file, (*library)->minor(), search_.loader);
  }

  Installation found;
  found.identity.name = "nvrtc";
  found.identity.version = fmt::format("{}.{}", file->major, builtins.minor);
  auto library_id = library_identity(file->library);
  if (!library_id) return fail(ErrorCode::compiler_unavailable, fmt::format("NVRTC cannot be identified: {}", library_id.error().message));
  std::string builtins_id = "absent";
  if (!builtins.library.empty()) {
    auto id = library_identity(builtins.library);
    if (!id) return fail(ErrorCode::compiler_unavailable, fmt::format("NVRTC's builtins cannot be identified: {}", id.error().message));
    builtins_id = std::move(*id);
  }
  std::string options;
  for (const char* option : kOptions) options += fmt::format("{}{}", options.empty() ? "" : " ", option);
  found.identity.components = {{"libnvrtc", std::move(*library_id)}, {"libnvrtc-builtins", std::move(builtins_id)}, {"options", options}};
  logger_(LogLevel::debug, fmt::format("NVRTC {}: {}, found by {}", found.identity.version, file->library.string(), file->found_by));
  found.file = std::move(*file);
  found.builtins = std::move(builtins);
  installation_ = std::move(found);
  return *installation_;
}

Result<std::shared_ptr<const Nvrtc>> NvrtcCompiler::open_library(const NvrtcFile& file) {
  if (library_ == nullptr) {
    auto library = Nvrtc::open(file);
    if (!library) return fail(std::move(library.error()));
    library_ = std::move(*library);
  }
  return library_;
}

Result<std::shared_ptr<const Nvrtc>> NvrtcCompiler::opened() {
  const std::lock_guard lock(mutex_);
  if (ready_) return library_;
  auto found = locate();
  if (!found) return fail(std::move(found.error()));
  auto library = open_library(found->file);
  if (!library) return fail(std::move(library.error()));
  const Nvrtc& nvrtc = **library;
  if (nvrtc.version_text() != found->identity.version) {
    return fail(
        ErrorCode::compiler_unavailable,
        fmt::format("{} is NVRTC {}, but the builtins beside it are those of {} ({}): the folder mixes two toolkits. Reinstall one of "
                    "them, or name another NVRTC in KERNWRIGHT_NVRTC",
                    found->file.library.string(), nvrtc.version_text(), found->identity.version, found->builtins.library.string()));
  }
  auto builtins = nvrtc.pin_builtins(found->builtins.library);
  if (!builtins) return fail(std::move(builtins.error()));
  builtins_ = std::move(*builtins);
  ready_ = true;
  return library_;
}

Result<CompileOutput> NvrtcCompiler::compile(const BuildRequest& request) {
  return produce(request, Product::cubin);
}

Result<std::string> NvrtcCompiler::ptx(const BuildRequest& request) {
  const auto output = produce(request, Product::ptx);
  if (!output) return fail(Error(output.error()));
  std::string text(reinterpret_cast<const char*>(output->binary.data()), output->binary.size());
  return text.substr(0, text.find('\0'));
}

/// Nothing where NVRTC made none.
nvrtcResult NvrtcCompiler::take(const NvrtcApi& api, nvrtcProgram program, Product product, std::vector<std::byte>& bytes) {
  const bool cubin = product == Product::cubin;
  std::size_t size = 0;
  if (const nvrtcResult result = (cubin ? api.get_cubin_size : api.get_ptx_size)(program, &size); result != NVRTC_SUCCESS || size == 0) {
    return result;
  }
  bytes.resize(size);
  return (cubin ? api.get_cubin : api.get_ptx)(program, reinterpret_cast<char*>(bytes.data()));
}

Result<CompileOutput> NvrtcCompiler::produce(const BuildRequest& request, Product product) {
  const auto library = opened();
  if (!library) return fail(Error(library.error()));
  const Nvrtc& nvrtc = **library;
  const NvrtcApi& api = nvrtc.api();
  if (const auto checked = check_request(request, nvrtc); !checked) return fail(Error(checked.error()));

  std::vector<const char*> headers;
  std::vector<const char*> names;
  for (std::size_t i = 1; i < request.sources.size(); ++i) {
    headers.push_back(request.sources[i].content.c_str());
    names.push_back(request.sources[i].name.c_str());
  }
  const std::string architecture = "--gpu-architecture=" + request.target.name();
  std::vector<const char*> options{architecture.c_str()};
  options.insert(options.end(), kOptions.begin(), kOptions.end());
  if (nvrtc.at_least(12, 9)) options.push_back(kNoCache);
  for (const std::string& option : request.options) options.push_back(option.c_str());

  const auto started = SteadyClock::now();
  nvrtcProgram raw = nullptr;
  if (const nvrtcResult result = api.create_program(&raw, request.sources[0].content.c_str(), request.sources[0].name.c_str(),
                                                    static_cast<int>(headers.size()), headers.data(), names.data());
      result != NVRTC_SUCCESS) {
    return fail(result == NVRTC_ERROR_OUT_OF_MEMORY ? ErrorCode::out_of_memory : ErrorCode::compile_failed,
                fmt::format("{}: NVRTC refuses the program: {}", request_name(request), api.get_error_string(result)));
  }
  const NvrtcProgram program(api, raw);

  Deadline deadline{SteadyClock::time_point::max()};
  if (time_limit_seconds_ > 0 && api.set_flow_callback != nullptr) {
    // A limit beyond a year is none; the cast below must not overflow.
    const std::chrono::duration<double> limit(std::min(time_limit_seconds_, 3.2e7));
    deadline.at = started + std::chrono::duration_cast<SteadyClock::duration>(limit);
    api.set_flow_callback(program.get(), &Deadline::passed, &deadline);
  }
  const nvrtcResult result = api.compile_program(program.get(), static_cast<int>(options.size()), options.data());

  CompileOutput output;
  output.log = program_log(api, program.get());
  output.seconds = std::chrono::duration<double>(SteadyClock::now() - started).count();
  if (result == NVRTC_SUCCESS) {
    const nvrtcResult taken = take(api, program.get(), product, output.binary);
    if (taken == NVRTC_SUCCESS && !output.binary.empty()) return output;
    return fail(ErrorCode::compile_failed,
                fmt::format("{}: NVRTC made no {}: {}\n{}", request_name(request), product == Product::cubin ? "cubin" : "PTX",
                            api.get_error_string(taken), readable_log(output.log)));
  }

  const std::string name = request_name(request);
  const std::string log = readable_log(output.log);
  switch (result) {
    case NVRTC_ERROR_CANCELLED:
      return fail(ErrorCode::timed_out, fmt::format("{}: the compile was cancelled after {:.1f} s, its limit (compile_time_limit_seconds)",
                                                    name, output.seconds));
    case NVRTC_ERROR_OUT_OF_MEMORY: return fail(ErrorCode::out_of_memory, fmt::format("{}: NVRTC ran out of memory\n{}", name, log));
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_COMPILATION:
      // A number is refused by NVRTC and a suffix by its front end, each in its own words; the list tells numbers only.
      if (log.find("--gpu-architecture") != std::string::npos || log.find("--nv_arch") != std::string::npos) {
        return fail(ErrorCode::unsupported,
                    fmt::format("{}: NVRTC {} does not compile for it (its targets, with suffixes of their own: {})\n{}", name,
                                nvrtc.version_text(), supported_list(nvrtc), log));
      }
      break;
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return fail(ErrorCode::compiler_unavailable,
                  fmt::format("{}: NVRTC {} could not use its builtins library {}: install it beside libnvrtc, from the same toolkit\n{}",
                              name, nvrtc.version_text(), builtins_name(nvrtc.major(), nvrtc.minor()), log));
    default: break;
  }
  if (const auto refusal = resource_refusal(output.log))
    return fail(ErrorCode::does_not_fit, fmt::format("{}: the compiler says: {}", name, *refusal));
  std::string message = fmt::format("{}: NVRTC {} answers {}", name, nvrtc.version_text(), api.get_error_string(result));
  if (const std::string quoted = quote_error_lines(output.log, request.sources); !quoted.empty()) message += "\n" + quoted;
  message += "\n" + (log.empty() ? std::string("(its log is empty)") : log);
  return fail(ErrorCode::compile_failed, std::move(message));
}

Result<ResourceUse> NvrtcCompiler::resources(const BuildRequest& request, std::span<const std::byte> binary, std::string_view log) {
  if (request.kind == ArtifactKind::plans) return ResourceUse{};
  auto facts = elf::kernel_facts(binary, request.entry, request.target.capability());
  if (!facts) {
    return fail(ErrorCode::load_failed,
                fmt::format("{}: the cubin does not tell its resources: {}", request_name(request), facts.error().message));
  }
  ResourceUse use;
  use.registers = facts->registers;
  use.static_shared = Bytes{facts->static_shared};
  use.stack_frame = Bytes{facts->stack_frame};
  if (const auto spilled = spills(log)) {
    use.spill_stores = spilled->stores;
    use.spill_loads = spilled->loads;
  }
  return use;
}

}  // namespace kernwright
