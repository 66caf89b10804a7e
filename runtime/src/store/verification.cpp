#include "store/verification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "store/compiler_record.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kGroupWrites = 0020;
constexpr unsigned kOthersWrite = 0002;

/// Who but the owner may search a folder may use a write bit below it: the write bits that still count there.
unsigned reachable(unsigned write_bits, unsigned folder_mode) {
  return write_bits & ((folder_mode & 0011U) << 1U);
}

std::string key_in(const std::string& name) {
  if (auto key = key_of(name, kEntryEnding)) return *key;
  return key_of(name, kRecordEnding).value_or("");
}

/// Every name in a store: what is not a store's, what was left over, and whose rights let others in.
class NameWalk {
 public:
  NameWalk(FileSystem& files, const fs::path& store, bool shared, std::int64_t now, std::vector<Finding>& findings)
      : files_(files), store_(store), shared_(shared), now_(now), findings_(findings) {}

  Result<> run() {
    const auto root = files_.status(store_);
    if (!root) return root.error().code == ErrorCode::not_found ? Result<>{} : fail(Error(root.error()));
    owner_ = root->owner;
    const unsigned bits = check_rights({}, *root, shared_ ? 0 : kGroupWrites | kOthersWrite);
    const auto names = files_.list(store_);
    if (!names) return fail(Error(names.error()));
    for (const std::string& name : *names) root_name(name, bits);
    return {};
  }

 private:
  void root_name(const std::string& name, unsigned bits) {
    const fs::path folder = store_ / name;
    if (folder == entries_folder(store_)) return shards(name, kEntryEnding, bits);
    if (folder == stamps_folder(store_)) return shards(name, kStampEnding, bits);
    if (folder == fits_folder(store_) || folder == compilers_folder(store_)) return names_of(name, kRecordEnding, "", bits);
    file(name, folder == build_lock_path(store_), bits);
  }

  /// entries or stamps.
  void shards(const fs::path& parent, std::string_view ending, unsigned bits) {
    const auto names = folder(parent, bits);
    for (const std::string& name : names) {
      const auto status = files_.status(store_ / parent / name);
      if (is_shard(name) && status && status->folder) {
        names_of(parent / name, ending, name, bits);
      } else {
        file(parent / name, false, bits);
      }
    }
  }

  /// A folder of files named by keys that begin with `digits`.
  void names_of(const fs::path& parent, std::string_view ending, std::string_view digits, unsigned bits) {
    for (const std::string& name : folder(parent, bits)) {
      const auto key = key_of(name, ending);
      if (key && !key->starts_with(digits)) {
        add(Fault::unexpected, parent / name, "", "it lies in the folder of other keys, so that nobody finds it");
      } else if (key && ending == kStampEnding && is_absent(entry_path(store_, *key))) {
        leftover(parent / name, "the stamp of an entry that is gone");
      } else {
        file(parent / name, key.has_value(), bits);
      }
    }
  }

  /// Its names; `bits` becomes what counts below it.
  std::vector<std::string> folder(const fs::path& path, unsigned& bits) {
    const auto status = files_.status(store_ / path);
    if (status && !status->folder) {
      add(Fault::unreadable, path, "", "a folder belongs in its place");
      return {};
    }
    if (status) bits = check_rights(path, *status, bits);
    auto names = files_.list(store_ / path);
    if (names) return std::move(*names);
    add(Fault::unreadable, path, "", names.error().message);
    return {};
  }

  void file(const fs::path& path, bool expected, unsigned bits) {
    const auto status = files_.status(store_ / path);
    const bool temporary = is_temporary(path.filename().native());
    if (!status) {
      // Vanished meanwhile, or a link to nothing; the reader of entries and records says what it is.
      if (!expected && !temporary) add(Fault::unexpected, path, "", status.error().message);
      return;
    }
    check_rights(path, *status, bits);
    if (temporary && status->regular_file) {
      if (!is_leftover(path.filename().native(), *status, now_)) return;  // somebody writes it
      leftover(path, "a process ended while it wrote this file");
    } else if (expected && status->link) {
      add(Fault::link, path, key_in(path.filename().native()), "a link, which is followed to read it but never evicted");
    } else if (!expected) {
      add(Fault::unexpected, path, "",
          path.filename().native().find(".displaced-") != std::string::npos
              ? "it stood in the place of an entry or record and was renamed aside; what is in it is not the store's"
          : status->folder ? "a folder that is not the store's"
                           : "a file that is not the store's");
    }
  }

  /// Answers the write bits that count below it. Below a folder that others may change everything is theirs to change: said once.
  unsigned check_rights(const fs::path& path, const FileSystem::Status& status, unsigned bits) {
    if (shared_) return 0;
    const unsigned open = status.mode & bits;
    if (open != 0) {
      const std::string_view who = (open & kOthersWrite) != 0 ? "every user" : "its group";
      add(Fault::rights, path, key_in(path.filename().native()),
          fmt::format("{} may write to it (mode {:04o}), and so change what is loaded from it", who, status.mode));
      return 0;
    }
    if (status.owner != owner_) {
      add(Fault::rights, path, key_in(path.filename().native()),
          fmt::format("it belongs to user {}, the store to user {}", status.owner, owner_));
    }
    return reachable(bits, status.mode);
  }

  bool is_absent(const fs::path& path) {
    const auto status = files_.status(path);
    return !status && status.error().code == ErrorCode::not_found;
  }

  void leftover(const fs::path& path, std::string problem) {
    add(Fault::leftover, path, "", std::move(problem));
    if (const auto status = files_.status(store_ / path)) findings_.back().age_seconds = now_ - status->modified_seconds;
  }

  void add(Fault fault, const fs::path& path, std::string key, std::string problem) {
    findings_.push_back({fault, path.empty() ? "." : path, std::move(key), std::move(problem)});
  }

  FileSystem& files_;
  const fs::path& store_;
  bool shared_;
  std::int64_t now_;
  std::vector<Finding>& findings_;
  std::uint32_t owner_ = 0;
};

/// Why a fit is none, by what it says itself.
std::string fit_problem(const Fit& fit) {
  if (const auto target = Target::parse(fit.target); !target) return target.error().message;
  if (fit.asked == fit.fitted) return "the tile that fitted is the one asked for, and such a fit is not written";
  return {};
}

std::string bad_fit(std::span<const std::byte> file) {
  const auto fit = parse_fit(as_text(file));
  return fit ? fit_problem(*fit) : fit.error().message;
}

std::string bad_compiler(std::span<const std::byte> file, const std::string& name) {
  const auto compiler = parse_compiler_record(as_text(file), name + std::string(kRecordEnding));
  if (!compiler) return compiler.error().message;
  const std::string right = compiler_record_name(*compiler);
  return right == name ? std::string() : fmt::format("its name is not the digest of what it holds, which is {}", right);
}

/// Every record of a folder, read and judged; answers how many.
template <class Problem>
std::size_t check_records(FileSystem& files, const fs::path& store, const fs::path& folder, Fault fault, Problem problem_of,
                          std::vector<Finding>& findings) {
  const auto names = files.list(folder);
  if (!names) return 0;  // the walk over the names has said it
  std::size_t count = 0;
  for (const std::string& name : *names) {
    const auto key = key_of(name, kRecordEnding);
    if (!key) continue;
    ++count;
    const auto file = files.read(folder / name, kLargestRecord);
    const std::string problem = file ? problem_of(*file, *key) : file.error().message;
    if (!problem.empty()) findings.push_back({fault, (folder / name).lexically_relative(store), *key, problem});
  }
  return count;
}

void check_entries(const std::vector<Store::Listed>& entries, const std::vector<CompilerIdentity>& compilers, const fs::path& store,
                   std::vector<Finding>& findings) {
  for (const Store::Listed& entry : entries) {
    const fs::path path = entry_path(store, entry.key).lexically_relative(store);
    if (entry.artifact == nullptr) {
      findings.push_back({Fault::bad_entry, path, entry.key, entry.problem});
    } else if (std::ranges::find(compilers, entry.artifact->compiler) == compilers.end()) {
      findings.push_back(
          {Fault::unlisted_compiler, path, entry.key,
           fmt::format("its compiler, {}, is not among those that the store lists, so that a process without a compiler does "
                       "not find it",
                       compiler_label(entry.artifact->compiler))});
    }
  }
}

}  // namespace

std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::bad_entry: return "bad entry";
    case Fault::bad_fit: return "bad fit";
    case Fault::bad_compiler: return "bad compiler record";
    case Fault::unlisted_compiler: return "unlisted compiler";
    case Fault::rights: return "rights";
    case Fault::unreadable: return "unreadable";
    case Fault::leftover: return "leftover";
    case Fault::stale_fit: return "stale fit";
    case Fault::link: return "link";
    case Fault::unexpected: return "unexpected";
  }
  return {};
}

bool is_bad(Fault fault) noexcept {
  return fault < Fault::leftover;
}

std::size_t Verification::bad() const {
  return static_cast<std::size_t>(std::ranges::count_if(findings, [](const Finding& each) { return is_bad(each.fault); }));
}

Result<Verification> verify_store(Store& store, FileSystem& files, std::int64_t now) {
  Verification result;
  std::vector<Finding> names;
  const fs::path& folder = store.folder();
  if (auto walked = NameWalk(files, folder, store.settings().shared, now, names).run(); !walked) return fail(std::move(walked.error()));
  // Where a folder within cannot be listed, the walk has said so.
  const auto entries = store.list();
  const auto compilers = store.compilers();
  if (entries && compilers) {
    result.entries = entries->size();
    check_entries(*entries, *compilers, folder, result.findings);
  }
  result.fits = check_records(
      files, folder, fits_folder(folder), Fault::bad_fit, [](std::span<const std::byte> file, const std::string&) { return bad_fit(file); },
      names);
  result.compilers = check_records(files, folder, compilers_folder(folder), Fault::bad_compiler, bad_compiler, names);
  std::ranges::stable_sort(names, {}, &Finding::path);
  std::ranges::move(names, std::back_inserter(result.findings));
  return result;
}

}  // namespace kernwright
