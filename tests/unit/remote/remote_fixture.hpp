// What the tests of the remote tier share.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "artifact.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/moved_clock.hpp"
#include "fixtures/temporary_folder.hpp"
#include "remote/remote_tier.hpp"

namespace kernwright::tests {

/// Keys that differ in more than one byte.
inline EntryKey numbered_key(unsigned number) {
  EntryKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::byte>((number >> (8 * (i % 4))) + 17 * i);
  return key;
}

inline std::vector<std::byte> some_bytes(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed * 29) & 0xFF);
  return bytes;
}

inline std::shared_ptr<const std::vector<std::byte>> shared(std::vector<std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline const std::string kHexKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

inline std::filesystem::path write_key_file(const std::filesystem::path& path, std::string_view text = kHexKey, unsigned mode = 0600) {
  write_file(path, text);
  ::chmod(path.c_str(), mode);
  return path;
}

/// For what another thread does; a minute, so that only a fault makes it false.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

inline bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace kernwright::tests
