#include "store/store_paths.hpp"

#include <algorithm>

namespace kernwright {
namespace {

constexpr std::size_t kKeyDigits = 32;
constexpr std::size_t kShardDigits = 2;

}  // namespace

std::filesystem::path entries_folder(const std::filesystem::path& store) {
  return store / "entries";
}
std::filesystem::path stamps_folder(const std::filesystem::path& store) {
  return store / "stamps";
}
std::filesystem::path fits_folder(const std::filesystem::path& store) {
  return store / "fits";
}
std::filesystem::path compilers_folder(const std::filesystem::path& store) {
  return store / "compilers";
}

std::filesystem::path entry_path(const std::filesystem::path& store, const std::string& hex) {
  return entries_folder(store) / hex.substr(0, kShardDigits) / (hex + std::string(kEntryEnding));
}
std::filesystem::path stamp_path(const std::filesystem::path& store, const std::string& hex) {
  return stamps_folder(store) / hex.substr(0, kShardDigits) / hex;
}
std::filesystem::path fit_path(const std::filesystem::path& store, const std::string& hex) {
  return fits_folder(store) / (hex + std::string(kRecordEnding));
}
std::filesystem::path compiler_path(const std::filesystem::path& store, const std::string& hex) {
  return compilers_folder(store) / (hex + std::string(kRecordEnding));
}

std::filesystem::path build_lock_path(const std::filesystem::path& store) {
  return store / "builds.lock";
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<std::string> key_of(std::string_view file_name, std::string_view ending) {
  if (file_name.size() != kKeyDigits + ending.size() || !file_name.ends_with(ending)) return std::nullopt;
  const std::string_view digits = file_name.substr(0, kKeyDigits);
  if (!is_hex(digits)) return std::nullopt;
  return std::string(digits);
}

bool is_shard(std::string_view folder_name) {
  return folder_name.size() == kShardDigits && is_hex(folder_name);
}

bool is_temporary(std::string_view file_name) {
  return file_name.starts_with('.') && file_name.ends_with(".tmp");
}

}  // namespace kernwright
