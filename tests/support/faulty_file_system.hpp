// A file system that counts its operations and fails those it is told to.
#pragma once

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "platform/file_system.hpp"

namespace kernwright::tests {

enum class FileOperation : std::uint8_t { read, publish, create_folders, list, remove, rename, status };

/// Passes everything on to another file system (the real one by default). Thread-safe but for the settings.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(std::shared_ptr<FileSystem> real = FileSystem::posix()) : real_(std::move(real)) {}

  /// The operation with this number (from 0, over all kinds) fails, and all after it where `and_all_after`.
  void fail_operation(int number, int code, bool and_all_after = false) {
    settings_ = [=](int at, FileOperation) { return at == number || (and_all_after && at > number) ? code : 0; };
  }
  /// Every operation of this kind fails.
  void fail_kind(FileOperation kind, int code) {
    settings_ = [=](int, FileOperation each) { return each == kind ? code : 0; };
  }
  void work_again() { settings_ = nullptr; }
  void start_counting() { count_ = 0; }
  [[nodiscard]] int count() const { return count_; }

  Result<std::vector<std::byte>> read(const std::filesystem::path& path, Bytes limit) override {
    if (const int code = next(FileOperation::read)) return refuse("read", path, code);
    return real_->read(path, limit);
  }
  Result<> publish(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    if (const int code = next(FileOperation::publish)) return refuse("write", path, code);
    return real_->publish(path, bytes);
  }
  Result<> create_folders(const std::filesystem::path& path, unsigned mode) override {
    if (const int code = next(FileOperation::create_folders)) return refuse("create the folder", path, code);
    return real_->create_folders(path, mode);
  }
  Result<std::vector<std::string>> list(const std::filesystem::path& folder) override {
    if (const int code = next(FileOperation::list)) return refuse("list the folder", folder, code);
    return real_->list(folder);
  }
  Result<> remove(const std::filesystem::path& path) override {
    if (const int code = next(FileOperation::remove)) return refuse("remove", path, code);
    return real_->remove(path);
  }
  Result<> rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (const int code = next(FileOperation::rename)) return refuse("rename", from, code);
    return real_->rename(from, to);
  }
  Result<Status> status(const std::filesystem::path& path) override {
    if (const int code = next(FileOperation::status)) return refuse("stat", path, code);
    auto status = real_->status(path);
    if (status && owner_of_everything) status->owner = *owner_of_everything;
    return status;
  }

  std::optional<std::uint32_t> owner_of_everything;  ///< Answered by status() in place of the real owner.

 private:
  int next(FileOperation kind) {
    const int number = count_++;
    return settings_ ? settings_(number, kind) : 0;
  }
  static tl::unexpected<Error> refuse(const char* operation, const std::filesystem::path& path, int code) {
    return fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                std::string("cannot ") + operation + " '" + path.native() + "': " + std::generic_category().message(code));
  }

  std::shared_ptr<FileSystem> real_;
  std::atomic<int> count_ = 0;
  std::function<int(int, FileOperation)> settings_;
};

}  // namespace kernwright::tests
