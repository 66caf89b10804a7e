// The names in a store's folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "kernwright/units.hpp"

namespace kernwright {

inline constexpr std::string_view kEntryEnding = ".kwe";
inline constexpr std::string_view kRecordEnding = ".toml";
inline constexpr std::string_view kStampEnding = "";
inline constexpr Bytes kLargestRecord = mebibytes(1);

std::filesystem::path entries_folder(const std::filesystem::path& store);
std::filesystem::path stamps_folder(const std::filesystem::path& store);
std::filesystem::path fits_folder(const std::filesystem::path& store);
std::filesystem::path compilers_folder(const std::filesystem::path& store);

/// `hex` has 32 digits.
std::filesystem::path entry_path(const std::filesystem::path& store, const std::string& hex);
std::filesystem::path stamp_path(const std::filesystem::path& store, const std::string& hex);
std::filesystem::path fit_path(const std::filesystem::path& store, const std::string& hex);
std::filesystem::path compiler_path(const std::filesystem::path& store, const std::string& hex);

std::filesystem::path build_lock_path(const std::filesystem::path& store);

/// The 32 digits of "<32 digits><ending>"; nullopt for any other name.
std::optional<std::string> key_of(std::string_view file_name, std::string_view ending);
bool is_hex(std::string_view text);
/// The first two digits' folder of entries.
bool is_shard(std::string_view folder_name);
/// A name that FileSystem::publish gives a file before it is whole.
bool is_temporary(std::string_view file_name);

}  // namespace kernwright
