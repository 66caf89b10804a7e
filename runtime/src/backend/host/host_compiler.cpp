#include "backend/host/host_compiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>

#include "backend/host/child_process.hpp"
#include "backend/host/host_defaults.hpp"
#include "backend/host/sanitizers.hpp"
#include "backend/host/temporary_folder.hpp"
#include "elf/elf_reader.hpp"
#include "key/key.hpp"
#include "templates/embedded_file.hpp"

namespace kernwright::host {
namespace {

constexpr std::string_view kUnit = "kernwright_host_unit.cpp";
constexpr std::string_view kObject = "kernwright_host_unit.so";
constexpr std::string_view kSimtFolder = "kernwright/simt/";

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_includable(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c != '"' && c != '\\' && c != '\x7f'; });
}

Result<> check(const BuildRequest& request) {
  if (!request.target.is_host()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the host compiler was asked for target {}; it compiles for host", request.target.name()));
  }
  if (request.sources.empty()) return fail(ErrorCode::invalid_argument, "a build request without a source");
  if (!is_includable(request.sources.front().name)) {
    return fail(ErrorCode::invalid_argument, fmt::format("source name \"{}\" cannot be included", request.sources.front().name));
  }
  if (request.kind == ArtifactKind::kernel && !is_identifier(request.entry)) {
    return fail(ErrorCode::invalid_argument, fmt::format("entry \"{}\": the name of an extern \"C\" function is needed", request.entry));
  }
  return {};
}

std::string unit(const BuildRequest& request) {
  std::string text = fmt::format("#include \"{}simt.hpp\"\n#include \"{}\"\n", kSimtFolder, request.sources.front().name);
  if (request.kind == ArtifactKind::kernel) text += fmt::format("KW_SIMT_ENTRY({})\n", request.entry);
  return text;
}

/// Compilers call what they found through -I. "./name"; the log shall have the virtual names.
std::string with_virtual_names(std::string log, const BuildRequest& request) {
  for (const SourceFile& source : request.sources) {
    const std::string found = "./" + source.name;
    for (std::size_t at = log.find(found); at != std::string::npos; at = log.find(found, at + source.name.size())) {
      if (at == 0 || std::strchr(" \n\t(", log[at - 1]) != nullptr) log.erase(at, 2);
    }
  }
  return log;
}

Result<std::vector<std::byte>> read_object(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file || text.empty()) return fail(ErrorCode::io, "the compiler succeeded but left no object");
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

HostCompiler::HostCompiler(const HostOptions& options, Logger logger)
    : mode_(options.mode.value_or(kDefaultMode)),
      setting_(options.compiler),
      time_limit_seconds_(options.compile_time_limit_seconds),
      logger_(std::move(logger)) {}

std::vector<std::string> HostCompiler::flags(const FoundCompiler& compiler) const {
  std::vector<std::string> list = {"-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
                                   "-fno-threadsafe-statics", "-fno-math-errno",
                                   // A launch that fails leaves a thread by unwinding it.
                                   "-fasynchronous-unwind-tables",
                                   // Templates read bf16 pairs as words, as CUDA code does.
                                   "-fno-strict-aliasing",
                                   // The same numbers from every compiler and processor.
                                   "-ffp-contract=off",
                                   // Statics of templates are this object's own, and it can be unloaded.
                                   "-Wl,-Bsymbolic", "-Wl,--as-needed"};
  if (!compiler.is_clang()) list.emplace_back("-fno-gnu-unique");
  if (mode_ != HostMode::fibers) list.emplace_back("-DKW_HOST_PLAIN_STATIC_SHARED");
  if (kBuiltWithAsan && mode_ == HostMode::fibers_asan) list.insert(list.end(), {"-fsanitize=address", "-g1", "-fno-omit-frame-pointer"});
  if (kBuiltWithTsan && mode_ == HostMode::threads) list.insert(list.end(), {"-fsanitize=thread", "-g1", "-fno-omit-frame-pointer"});
  return list;
}

Result<const HostCompiler::Known*> HostCompiler::known() {
  const std::lock_guard lock(mutex_);
  if (known_) return &*known_;
  auto compiler = find_compiler(setting_, time_limit_seconds_);
  if (!compiler) return fail(std::move(compiler.error()));
  const bool sanitized = (kBuiltWithAsan && mode_ == HostMode::fibers_asan) || (kBuiltWithTsan && mode_ == HostMode::threads);
#if defined(__clang__)
  constexpr bool kBuiltByClang = true;
#else
  constexpr bool kBuiltByClang = false;
#endif
  if (sanitized && compiler->is_clang() != kBuiltByClang) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("this program is built with a sanitizer of {}, and its kernels have to be compiled by the same compiler; found {}; "
                    "name one by the setting host.compiler or by CXX",
                    kBuiltByClang ? "clang++" : "g++", compiler->version));
  }
  std::string headers;
  for (const EmbeddedFile& file : embedded_simt_headers())
    headers += fmt::format("{} {}\n{}", file.name, file.content.size(), file.content);
  Known known;
  known.flags = flags(*compiler);
  std::vector<std::string> all = compiler->arguments;
  all.insert(all.end(), known.flags.begin(), known.flags.end());
  known.identity = {"host",
                    compiler->version,
                    {{"compiler", compiler->content_hash},
                     {"simt", content_hash(headers)},
                     {"flags", fmt::format("{}", fmt::join(all, " "))},
                     {"mode", std::string(to_string(mode_))},
                     {"sanitizer", !sanitized       ? "none"
                                   : kBuiltWithAsan ? "address"
                                                    : "thread"}}};
  known.compiler = std::move(*compiler);
  logger_(LogLevel::debug, fmt::format("host compiler {}: {}", known.compiler.program.string(), known.compiler.version));
  known_ = std::move(known);
  return &*known_;
}

Result<CompilerIdentity> HostCompiler::identity() {
  auto known = this->known();
  if (!known) return fail(std::move(known.error()));
  return (*known)->identity;
}

Result<CompileOutput> HostCompiler::compile(const BuildRequest& request) {
  const auto started = std::chrono::steady_clock::now();
  if (auto checked = check(request); !checked) return fail(std::move(checked.error()));
  auto known = this->known();
  if (!known) return fail(std::move(known.error()));
  auto folder = TemporaryFolder::create();
  if (!folder) return fail(std::move(folder.error()));
  for (const SourceFile& source : request.sources) {
    if (auto written = folder->write(source.name, source.content); !written) return fail(std::move(written.error()));
  }
  for (const EmbeddedFile& header : embedded_simt_headers()) {
    if (auto written = folder->write(std::string(kSimtFolder) + header.name, header.content); !written)
      return fail(std::move(written.error()));
  }
  if (auto written = folder->write(kUnit, unit(request)); !written) return fail(std::move(written.error()));

  const FoundCompiler& compiler = (*known)->compiler;
  ChildCommand command{
      compiler.program, {compiler.program.string()}, compiler_environment(folder->path()), folder->path(), time_limit_seconds_};
  auto& arguments = command.arguments;
  arguments.insert(arguments.end(), compiler.arguments.begin(), compiler.arguments.end());
  arguments.insert(arguments.end(), (*known)->flags.begin(), (*known)->flags.end());
  arguments.insert(arguments.end(), request.options.begin(), request.options.end());
  arguments.insert(arguments.end(), {fmt::format("-ffile-prefix-map={}=.", folder->path().string()), "-I.", "-shared", "-x", "c++",
                                     std::string(kUnit), "-o", std::string(kObject)});
  auto outcome = run_child(command);
  if (!outcome) return fail(std::move(outcome.error()).within("compiling " + request.sources.front().name));

  CompileOutput output;
  output.log = with_virtual_names(std::move(outcome->output), request);
  if (outcome->truncated) output.log += "\n(the rest of the compiler's words is left out)\n";
  if (outcome->exit_code != 0) {
    return fail(ErrorCode::compile_failed, fmt::format("{} ended with {} on {} ({}):\n{}", compiler.program.string(), outcome->exit_code,
                                                       request.sources.front().name, compiler.version, output.log));
  }
  auto object = read_object(folder->path() / kObject);
  if (!object) return fail(std::move(object.error()));
  output.binary = std::move(*object);
  output.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return output;
}

Result<ResourceUse> HostCompiler::resources(const BuildRequest&, std::span<const std::byte> binary, std::string_view) {
  ResourceUse use;
  if (mode_ != HostMode::fibers) return use;
  auto zeroed = elf::section_size(binary, ".tbss");
  auto valued = elf::section_size(binary, ".tdata");
  if (!zeroed) return fail(std::move(zeroed.error()));
  if (!valued) return fail(std::move(valued.error()));
  const std::size_t all = *zeroed + *valued;
  use.static_shared = {all <= sizeof(void*) ? 0 : all - sizeof(void*)};  // less the SIMT header's own variable, if not its padding
  return use;
}

}  // namespace kernwright::host
