#include "backend/cuda/nvrtc_search.hpp"

#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <fstream>

#include "backend/cuda/diagnosis.hpp"
#include "elf/elf_file.hpp"
#include "key/key.hpp"
#include "nvrtc_fixture.hpp"
#include "platform/file_system.hpp"

using namespace kernwright;
using namespace kernwright::testing;
namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void write_file(const fs::path& path, std::string_view content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

// The least ELF file that has a SONAME, and a build id note unless `build_id` is empty: [header | section table | strings | dynamic |
// note].
std::string small_library(std::string_view soname, std::string_view build_id) {
  std::string strings("\0.dynstr\0", 9);
  const auto soname_at = static_cast<std::uint64_t>(strings.size());
  strings += soname;
  strings += '\0';
  std::string dynamic(16, '\0');
  const std::uint64_t tag = 14;
  std::memcpy(dynamic.data(), &tag, 8);
  std::memcpy(dynamic.data() + 8, &soname_at, 8);
  std::string note;
  if (!build_id.empty()) {
    const std::uint32_t sizes[3] = {4, static_cast<std::uint32_t>(build_id.size()), 3};
    note.assign(reinterpret_cast<const char*>(sizes), sizeof sizes);
    note += std::string("GNU\0", 4);
    note += build_id;
  }
  elf::FileHeader header{};
  std::memcpy(header.ident,
              "\x7f"
              "ELF\x02\x01\x01",
              7);
  header.type = 3;
  header.machine = 62;
  header.shoff = sizeof header;
  header.shentsize = sizeof(elf::SectionHeader);
  header.shnum = 4;
  header.shstrndx = 1;
  elf::SectionHeader sections[4] = {};
  std::uint64_t at = sizeof header + sizeof sections;
  const auto place = [&at](elf::SectionHeader& section, std::uint32_t type, const std::string& bytes) {
    section.type = type;
    section.offset = at;
    section.size = bytes.size();
    section.alignment = 4;
    at += bytes.size();
  };
  place(sections[1], 3, strings);
  place(sections[2], 6, dynamic);
  sections[2].link = 1;
  place(sections[3], 7, note);
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return file + strings + dynamic + note;
}

void write_toolkit(const fs::path& folder, std::string_view nvrtc_id, std::string_view builtins_id, int minor = 0) {
  write_file(folder / "libnvrtc.so.13", small_library("libnvrtc.so.13", nvrtc_id));
  write_file(folder / builtins_name(13, minor), small_library(builtins_name(13, minor), builtins_id));
}

// A search that sees nothing of this machine.
NvrtcSearch empty_search(const fs::path& root) {
  NvrtcSearch search;
  search.loader.cache = root / "no-cache";
  return search;
}

NvrtcFile found_in(const NvrtcSearch& search) {
  auto found = find_nvrtc(search);
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  return *found;
}

CompilerIdentity identity_in(const fs::path& folder) {
  auto search = empty_search(folder);
  search.folders = {folder};
  auto identity = make_compiler(search)->identity();
  REQUIRE_MESSAGE(identity.has_value(), identity.error().message);
  return *identity;
}

}  // namespace

TEST_CASE("nvrtc search: places are tried in the documented order") {
  const TemporaryFolder root;
  const auto at = [&root](const char* name) { return root.path() / name; };
  auto search = empty_search(root.path());
  search.folders = {at("option1"), at("option2")};
  search.loader.before_cache = {at("ld_library_path")};
  search.loader.after_cache = {at("builtin")};
  search.toolkits = {at("cuda_home"), at("usr_local")};
  search.python_folders = {at("pythonpath")};
  search.python_prefixes = {at("venv/lib")};

  // From the last to the first, each new one must win over those behind it.
  std::vector<fs::path> places{at("venv/lib/python3.11/site-packages/nvidia/cu13/lib"),
                               at("pythonpath/nvidia/cu13/lib"),
                               at("usr_local"),
                               at("cuda_home"),
                               at("builtin"),
                               at("ld_library_path"),
                               at("option2"),
                               at("option1")};
  CHECK_FALSE(find_nvrtc(search).has_value());
  for (const fs::path& place : places) {
    write_toolkit(place, "a", "b");
    CHECK(found_in(search).library == fs::canonical(place / "libnvrtc.so.13"));
  }
  write_toolkit(at("given"), "a", "b");
  search.given = at("given") / "libnvrtc.so.13";
  CHECK(found_in(search).library == fs::canonical(*search.given));
  CHECK(found_in(search).major == 13);
}

TEST_CASE("nvrtc search: a failure lists every place and what was wrong there") {
  const TemporaryFolder root;
  auto search = empty_search(root.path());
  search.folders = {root.path() / "script", root.path() / "twelve"};
  search.loader.before_cache = {root.path() / "ld"};
  search.toolkits = {root.path() / "cuda"};
  search.python_prefixes = {root.path() / "lib"};
  write_file(root.path() / "script/libnvrtc.so.13", "GROUP ( libnvrtc.so.13.0 )");
  write_file(root.path() / "twelve/libnvrtc.so", small_library("libnvrtc.so.12", "x"));
  write_file(root.path() / "lib/python3.12/site-packages/nvidia/cu/lib/libnvrtc.so.13", small_library("libother.so", "x"));
  const auto missing = find_nvrtc(search);
  REQUIRE_FALSE(missing.has_value());
  const std::string& message = missing.error().message;
  CHECK(missing.error().code == ErrorCode::compiler_unavailable);
  for (const char* part :
       {"script", "not an ELF file", "is NVRTC 12", "KERNWRIGHT_NVRTC", "/ld, ", "/cuda", "libother.so", "python3*", "Install"}) {
    CAPTURE(part);
    CHECK(contains(message, part));
  }
}

TEST_CASE("nvrtc search: a named library is used whatever its major, and a wrong name is an error that does not search on") {
  const TemporaryFolder root;
  auto search = empty_search(root.path());
  write_toolkit(root.path() / "other", "a", "b");
  search.folders = {root.path() / "other"};
  write_file(root.path() / "libnvrtc.so.12", small_library("libnvrtc.so.12", "x"));
  search.given = root.path() / "libnvrtc.so.12";
  CHECK(found_in(search).major == 12);
  search.given = root.path() / "absent.so";
  const auto absent = find_nvrtc(search);
  REQUIRE_FALSE(absent.has_value());
  CHECK(absent.error().code == ErrorCode::compiler_unavailable);
  CHECK(contains(absent.error().message, "absent.so"));
  write_file(root.path() / "text.so", "no library");
  search.given = root.path() / "text.so";
  CHECK(contains(find_nvrtc(search).error().message, "not one"));
}

TEST_CASE("nvrtc identity: a moved or symlinked toolkit is the same compiler") {
  const TemporaryFolder root;
  write_toolkit(root.path() / "a", "id-of-nvrtc", "id-of-builtins");
  const auto first = identity_in(root.path() / "a");
  CHECK(first.name == "nvrtc");
  CHECK(first.version == "13.0");
  fs::create_directory_symlink(root.path() / "a", root.path() / "link");
  CHECK(identity_in(root.path() / "link") == first);
  fs::create_directory(root.path() / "farm");
  fs::create_symlink(root.path() / "a/libnvrtc.so.13", root.path() / "farm/libnvrtc.so.13");
  CHECK(identity_in(root.path() / "farm") == first);
  fs::remove(root.path() / "link");
  fs::rename(root.path() / "a", root.path() / "b");
  CHECK(identity_in(root.path() / "b") == first);
}

TEST_CASE("nvrtc identity: two toolkits of the same version are two compilers, whichever of their libraries differs") {
  const TemporaryFolder root;
  write_toolkit(root.path() / "a", "nvrtc-1", "builtins-1");
  write_toolkit(root.path() / "b", "nvrtc-2", "builtins-1");
  write_toolkit(root.path() / "c", "nvrtc-1", "builtins-2");
  write_toolkit(root.path() / "d", "nvrtc-1", "builtins-1", 1);
  write_toolkit(root.path() / "e", "", "");  // no build ids: told apart by content
  write_toolkit(root.path() / "f", "", "");
  std::ofstream(root.path() / "f/libnvrtc.so.13", std::ios::app) << "more";
  std::vector<CompilerIdentity> all;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) all.push_back(identity_in(root.path() / name));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      CHECK_FALSE(all[i] == all[j]);
    }
  }
  CHECK(all[0].version == all[1].version);
  CHECK(all[3].version == "13.1");
}

TEST_CASE("nvrtc identity: this machine's is told from files alone, with the build id that its note holds") {
  if (!nvrtc_present()) return;
  const auto file = found_in(machine_search());
  if (!builtins_beside(file)) {
    MESSAGE("skipped: no single builtins library beside " << file.library.string());
    return;
  }
  // Read with code of its own: the first "GNU\0" owner field with a 20-byte value of type 3.
  const auto bytes = FileSystem::posix()->read(file.library, mebibytes(1024));
  REQUIRE(bytes.has_value());
  const std::string_view text = as_text(*bytes);
  const std::size_t note = text.find(std::string_view("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16));
  REQUIRE(note != std::string_view::npos);
  std::string expected = "build-id:";
  for (const char c : text.substr(note + 16, 20)) {
    const auto value = static_cast<unsigned char>(c);
    expected += "0123456789abcdef"[value >> 4];
    expected += "0123456789abcdef"[value & 15];
  }
  const auto started = std::chrono::steady_clock::now();
  const auto identity = make_compiler()->identity();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
  REQUIRE_MESSAGE(identity.has_value(), identity.error().message);
  CHECK(identity->components.at(0).first == "libnvrtc");
  CHECK(identity->components.at(0).second == expected);
  MESSAGE("identity() took " << ms << " ms");
  // A store keyed by this is right only if NVRTC itself agrees once it is open.
  auto compiler = make_compiler();
  const auto opened = compiler->opened();
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
  CHECK((*opened)->version_text() == identity->version);
}

TEST_CASE("nvrtc: a folder that mixes two toolkits is refused when it is opened") {
  if (!nvrtc_present()) return;
  const TemporaryFolder root;
  const auto real = found_in(machine_search());
  // The library itself, under another folder, so that its neighbours are ours. A hard link is not another real path everywhere: copy.
  fs::copy_file(real.library, root.path() / "libnvrtc.so.13");
  write_file(root.path() / builtins_name(13, 99), small_library(builtins_name(13, 99), "x"));
  auto search = empty_search(root.path());
  search.given = root.path() / "libnvrtc.so.13";
  auto compiler = make_compiler(search);
  const auto identity = compiler->identity();
  REQUIRE(identity.has_value());
  CHECK(identity->version == "13.99");
  const auto output = compiler->compile(request("extern \"C\" __global__ void kernel() {}"));
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::compiler_unavailable);
  CHECK(contains(output.error().message, "mixes two toolkits"));
}

TEST_CASE("nvrtc: missing builtins are named, with the log, which alone tells of them") {
  if (!nvrtc_present()) return;
  const TemporaryFolder root;
  // A copy that asks for a builtins library of a name that no folder of this machine has.
  const auto real = found_in(machine_search());
  auto bytes = FileSystem::posix()->read(real.library, mebibytes(1024));
  REQUIRE(bytes.has_value());
  std::string text(as_text(*bytes));
  bytes->clear();
  const std::string name = "libnvrtc-builtins.so.13.";
  int patched = 0;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    text.replace(at, 18, "libnvrtc-builtinzz");
    ++patched;
  }
  REQUIRE(patched > 0);
  write_file(root.path() / "libnvrtc.so.13", text);
  text.clear();
  auto search = empty_search(root.path());
  search.given = root.path() / "libnvrtc.so.13";
  auto compiler = make_compiler(search);
  const auto identity = compiler->identity();
  REQUIRE_MESSAGE(identity.has_value(), identity.error().message);
  CHECK(identity->components.at(1).second == "absent");
  const auto output = compiler->compile(request("extern \"C\" __global__ void kernel() {}"));
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::compiler_unavailable);
  CHECK(contains(output.error().message, "libnvrtc-builtins.so.13."));
  CHECK(contains(output.error().message, "failed to open libnvrtc-builtinzz"));  // NVRTC's own words

  RuntimeOptions options;
  options.nvrtc = search.given;
  options.cuda_driver = root.path() / "absent-libcuda.so.1";
  const CudaDiagnosis diagnosis = diagnose_cuda(options);
  CHECK_FALSE(diagnosis.builtins_ok);
  CHECK(contains(diagnosis.builtins_problem, "failed to open"));
  CHECK(diagnosis.nvrtc_problem.empty());
  CHECK(contains(diagnosis.driver_problem, "absent-libcuda.so.1"));
}

TEST_CASE("nvrtc: the builtins that stand beside a library are used, or another build that the process has loaded is named") {
  if (!nvrtc_present()) return;
  // The machine's own are in the process from here on, and the loader answers their name with them.
  auto machine = make_compiler();
  REQUIRE(machine->compile(request("extern \"C\" __global__ void kernel() {}")).has_value());
  const auto real = machine->installation();
  REQUIRE(real.has_value());
  const TemporaryFolder root;
  const auto copy = [&](const char* folder, const std::string& builtins) {
    fs::create_directory(root.path() / folder);
    fs::copy_file(real->file.library, root.path() / folder / "libnvrtc.so.13");
    write_file(root.path() / folder / builtins_name(13, real->builtins.minor), builtins);
    auto search = empty_search(root.path());
    search.given = root.path() / folder / "libnvrtc.so.13";
    return make_compiler(search);
  };
  const auto bytes = FileSystem::posix()->read(real->builtins.library, mebibytes(64));
  REQUIRE(bytes.has_value());
  std::string text(as_text(*bytes));
  const auto same = copy("same", text);
  CHECK(same->identity().value() == real->identity);
  CHECK(same->compile(request("extern \"C\" __global__ void kernel() {}")).has_value());

  const std::size_t note = text.find(std::string_view("GNU\0", 4));
  REQUIRE(note != std::string::npos);
  text[note + 4] = static_cast<char>(text[note + 4] ^ 1);
  const auto other = copy("other", text);
  REQUIRE(other->identity().has_value());
  CHECK_FALSE(other->identity().value() == real->identity);
  const auto output = other->compile(request("extern \"C\" __global__ void kernel() {}"));
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::compiler_unavailable);
  CHECK(contains(output.error().message, "has loaded"));
  CHECK(contains(output.error().message, real->builtins.library.string()));
}

TEST_CASE("doctor: this machine's NVRTC is described and its builtins work") {
  if (!nvrtc_present()) return;
  RuntimeOptions options;
  options.cuda_driver = "/nonexistent/libcuda.so.1";
  const CudaDiagnosis diagnosis = diagnose_cuda(options);
  CHECK(diagnosis.nvrtc_problem.empty());
  CHECK(diagnosis.builtins_ok);
  CHECK(diagnosis.builtins_problem.empty());
  CHECK(diagnosis.nvrtc_version.starts_with("13."));
  CHECK(std::find(diagnosis.supported_targets.begin(), diagnosis.supported_targets.end(), "sm_90") != diagnosis.supported_targets.end());
  CHECK_FALSE(diagnosis.driver_problem.empty());
  CHECK(diagnosis.driver_version.empty());
}

TEST_CASE("loader path: the cache of this machine answers what the loader maps") {
  // libdl's opener and our reader must agree on a library that every glibc system lists.
  const auto cached = find_in_loader_cache("/etc/ld.so.cache", "libstdc++.so.6");
  if (!cached) {
    MESSAGE("skipped: /etc/ld.so.cache does not list libstdc++.so.6");
    return;
  }
  const auto loaded = DynamicLibrary::already_loaded("libstdc++.so.6");
  REQUIRE(static_cast<bool>(loaded));
  CHECK(fs::equivalent(*cached, loaded.path()));
  CHECK_FALSE(find_in_loader_cache("/etc/ld.so.cache", "libno-such-library.so.1").has_value());
}

TEST_CASE("loader path: a damaged cache answers nothing and reads nothing outside") {
  const TemporaryFolder root;
  const auto bytes = FileSystem::posix()->read("/etc/ld.so.cache", mebibytes(16));
  if (!bytes) return;
  std::string text(as_text(*bytes));
  const fs::path cache = root.path() / "cache";
  for (std::size_t size = 0; size < 4096 && size < text.size(); size += 31) {
    write_file(cache, std::string_view(text).substr(0, size));
    CHECK_FALSE(find_in_loader_cache(cache, "libno-such-library.so.1").has_value());
  }
  for (std::size_t at = 20; at < text.size(); ++at) text[at] = static_cast<char>(0xff);
  write_file(cache, text);
  CHECK_FALSE(find_in_loader_cache(cache, "libstdc++.so.6").has_value());
}
