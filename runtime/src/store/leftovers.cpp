#include "store/leftovers.hpp"

#include "store/store_paths.hpp"

namespace kernwright {
namespace {

using Names = Result<std::vector<std::string>>;

class Search {
 public:
  Search(FileSystem& files, const std::filesystem::path& store, std::int64_t now) : files_(files), store_(store), now_(now) {}

  /// Temporary files of one folder, and what else `also` says is one.
  template <class Also>
  Result<> folder(const std::filesystem::path& folder, Also also) {
    const Names names = files_.list(folder);
    if (!names) return fail(Error(names.error()));
    for (const std::string& name : *names) {
      const auto path = folder / name;
      const auto status = files_.status(path);
      if (!status || !status->regular_file || (!is_leftover(name, *status, now_) && !also(name))) continue;
      found_.push_back({path.lexically_relative(store_), status->size, now_ - status->modified_seconds});
    }
    return {};
  }
  Result<> folder(const std::filesystem::path& path) {
    return folder(path, [](const std::string&) { return false; });
  }
  /// The same for each folder of entries or stamps.
  template <class Also>
  Result<> shards(const std::filesystem::path& parent, Also also) {
    const Names names = files_.list(parent);
    if (!names) return fail(Error(names.error()));
    for (const std::string& shard : *names) {
      const auto status = files_.status(parent / shard);
      if (!is_shard(shard) || !status || !status->folder) continue;
      if (auto searched = folder(parent / shard, also); !searched) return searched;
    }
    return {};
  }
  std::vector<Leftover> found() && { return std::move(found_); }

 private:
  FileSystem& files_;
  const std::filesystem::path& store_;
  std::int64_t now_;
  std::vector<Leftover> found_;
};

}  // namespace

bool is_leftover(std::string_view file_name, const FileSystem::Status& status, std::int64_t now) {
  return is_temporary(file_name) && now - status.modified_seconds > kLeftoverSeconds;
}

Result<std::vector<Leftover>> find_leftovers(FileSystem& files, const std::filesystem::path& store, std::int64_t now) {
  Search search(files, store, now);
  const auto none = [](const std::string&) { return false; };
  const auto of_no_entry = [&](const std::string& name) {
    const auto key = key_of(name, kStampEnding);
    if (!key) return false;
    const auto entry = files.status(entry_path(store, *key));
    return !entry && entry.error().code == ErrorCode::not_found;
  };
  for (const auto& folder : {store, fits_folder(store), compilers_folder(store)}) {
    if (auto searched = search.folder(folder); !searched) return fail(std::move(searched.error()));
  }
  if (auto searched = search.shards(entries_folder(store), none); !searched) return fail(std::move(searched.error()));
  if (auto searched = search.shards(stamps_folder(store), of_no_entry); !searched) return fail(std::move(searched.error()));
  return std::move(search).found();
}

}  // namespace kernwright
