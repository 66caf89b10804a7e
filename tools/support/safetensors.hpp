// Reads and writes safetensors files: an 8-byte little-endian header length, a JSON header, the tensors' bytes.
// Format: https://github.com/huggingface/safetensors (README.md, "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernwright/dtype.hpp"
#include "kernwright/result.hpp"

namespace kernwright::support {

struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;                ///< As the file writes it: "BF16", "F32", "I32", …
  std::optional<DType> dtype;            ///< Empty where Kernwright has no such type.
  std::vector<std::int64_t> shape = {};  ///< Row-major; empty for a scalar.
  std::uint64_t begin = 0;               ///< Byte range within the data that follows the header.
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;        ///< In the order of their bytes.
  std::map<std::string, std::string> metadata;  ///< "__metadata__".
  std::uint64_t data_offset = 0;                ///< Where the data begins in the file.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const noexcept;
};

/// Checks a header against the whole file's size. `text` is the JSON alone. Everything the format promises is checked: names are distinct,
/// dtypes known, shapes not negative, sizes those of dtype and shape, and the tensors' bytes lie one after the other from the first byte of
/// data to the last. Errors: malformed, naming `file_name`, the tensor, what came and what is legal.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t file_size, std::string_view file_name);

/// The same for a whole file in memory.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view file_name);

/// An open file whose header was checked. Tensors are read when asked for, each into memory of its own. Movable, not thread-safe.
class SafetensorsFile {
 public:
  /// Errors: not_found; io (not a regular file, not readable); malformed.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  [[nodiscard]] const SafetensorsHeader& header() const noexcept { return header_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< The path as it was given, for messages.

  /// One of this file's tensors as elements of T, whose size must be that of the tensor's dtype. io where the file became shorter.
  template <class T>
  [[nodiscard]] Result<std::vector<T>> read(const SafetensorsEntry& entry) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (entry.bytes() % sizeof(T) != 0) return fail(ErrorCode::invalid_argument, wrong_element_size(entry, sizeof(T)));
    std::vector<T> elements(entry.bytes() / sizeof(T));
    if (Result<> done = read_bytes(entry, std::as_writable_bytes(std::span(elements))); !done) return fail(std::move(done.error()));
    return elements;
  }

 private:
  SafetensorsFile(int descriptor, std::string name, SafetensorsHeader header) noexcept
      : descriptor_(descriptor), name_(std::move(name)), header_(std::move(header)) {}
  Result<> read_bytes(const SafetensorsEntry& entry, std::span<std::byte> to) const;
  [[nodiscard]] std::string wrong_element_size(const SafetensorsEntry& entry, std::size_t size) const;

  int descriptor_ = -1;
  std::string name_;
  SafetensorsHeader header_;
};

/// A tensor to write; `bytes` is borrowed and must be element_bytes(dtype) × the product of `shape` long.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape = {};
  std::span<const std::byte> bytes = {};
};

/// Writes a whole file. A regular file, or none, at `path` is replaced in one step once everything is on disk, and is as it was after an
/// error; anything else there (a device, a pipe) is written to directly.
/// Errors: invalid_argument (a size that is not the shape's, a repeated name); io.
Result<> write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsTensor> tensors,
                           const std::map<std::string, std::string>& metadata = {});

}  // namespace kernwright::support
