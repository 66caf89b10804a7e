#include "support/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/write_all.hpp"
#include "recording/safetensors_layout.hpp"

namespace kernwright::support {
namespace {

std::string errno_text(int number) {
  return std::generic_category().message(number);
}

/// The header's length from a file's first 8 bytes, checked against the file's size.
Result<std::uint64_t> header_length(std::span<const std::byte> prefix, std::uint64_t file_size, std::string_view file_name) {
  const auto malformed = [&](std::string problem) {
    return fail(ErrorCode::malformed, fmt::format("{} is not a safetensors file: {}", file_name, problem));
  };
  if (file_size < 8 || prefix.size() < 8) return malformed(fmt::format("it has {} bytes; the header's length alone takes 8", file_size));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > kSafetensorsHeaderLimit) {
    return malformed(fmt::format("its header claims {} bytes; at most {} are read", length, kSafetensorsHeaderLimit));
  }
  if (length > file_size - 8) {
    return malformed(fmt::format("its header claims {} bytes, but the file has {} after the header's length", length, file_size - 8));
  }
  return length;
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const noexcept { return value_; }
  int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// Reads exactly `to.size()` bytes from `offset`; empty, or why not.
std::string read_exactly(int descriptor, std::uint64_t offset, std::span<std::byte> to) {
  constexpr std::size_t kOneRead = std::size_t{1} << 30;
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor, to.data(), std::min(to.size(), kOneRead), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_text(errno);
    if (count == 0) return fmt::format("it ends at byte {}: it became shorter while it was read", offset);
    offset += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

/// Where everything lies; invalid_argument where a tensor's bytes are not as many as its shape says.
Result<SafetensorsLayout> layout_of(std::span<const SafetensorsTensor> tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsShape> shapes;
  for (const SafetensorsTensor& tensor : tensors) shapes.push_back({tensor.name, tensor.dtype, tensor.shape});
  auto layout = safetensors_layout(shapes, metadata);
  if (!layout) return layout;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SafetensorsTensor& tensor = tensors[i];
    if (layout->sizes[i] == tensor.bytes.size()) continue;
    const auto* known = std::ranges::find(kSafetensorsDTypes, std::optional(tensor.dtype), &SafetensorsDType::dtype);
    return fail(ErrorCode::invalid_argument,
                fmt::format("tensor {}: {} bytes came, but shape [{}] of {} needs {}", quoted_name(tensor.name), tensor.bytes.size(),
                            fmt::join(tensor.shape, ", "), known->name, layout->sizes[i]));
  }
  return layout;
}

Result<> write_file(int descriptor, const std::filesystem::path& path, std::string_view prefix, std::span<const SafetensorsTensor> tensors,
                    bool flush) {
  const auto failed = [&](std::string_view what) {
    return fail(ErrorCode::io, fmt::format("{} could not be {}: {}", path.string(), what, errno_text(errno)));
  };
  if (!write_all(descriptor, std::as_bytes(std::span(prefix)))) return failed("written");
  for (const SafetensorsTensor& tensor : tensors) {
    if (!write_all(descriptor, tensor.bytes)) return failed("written");
  }
  if (flush && ::fsync(descriptor) != 0) return failed("flushed to disk");
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view file_name) {
  const Result<std::uint64_t> length = header_length(file.first(std::min<std::size_t>(file.size(), 8)), file.size(), file_name);
  if (!length) return fail(Error(length.error()));
  const std::span<const std::byte> text = file.subspan(8, *length);
  return parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()}, file.size(), file_name);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  // O_NONBLOCK: a pipe in the file's place is refused below instead of being waited for.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) {
    return fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, fmt::format("{} could not be opened: {}", name, errno_text(errno)));
  }
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return fail(ErrorCode::io, fmt::format("{}: {}", name, errno_text(errno)));
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::io,
                fmt::format("{} is a {}; a regular file is needed", name, S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
  }
  const auto file_size = static_cast<std::uint64_t>(status.st_size);
  std::array<std::byte, 8> prefix{};
  const std::size_t prefix_size = std::min<std::size_t>(8, file_size);
  if (const std::string problem = read_exactly(descriptor.get(), 0, std::span(prefix).first(prefix_size)); !problem.empty()) {
    return fail(ErrorCode::io, fmt::format("{} could not be read: {}", name, problem));
  }
  const Result<std::uint64_t> length = header_length(std::span(prefix).first(prefix_size), file_size, name);
  if (!length) return fail(Error(length.error()));
  std::string text(*length, '\0');
  if (const std::string problem = read_exactly(descriptor.get(), 8, std::as_writable_bytes(std::span(text))); !problem.empty()) {
    return fail(ErrorCode::io, fmt::format("{} could not be read: {}", name, problem));
  }
  Result<SafetensorsHeader> header = parse_safetensors_header(text, file_size, name);
  if (!header) return fail(std::move(header.error()));
  return SafetensorsFile(descriptor.release(), name, std::move(*header));
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)), header_(std::move(other.header_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  std::swap(header_, other.header_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<> SafetensorsFile::read_bytes(const SafetensorsEntry& entry, std::span<std::byte> to) const {
  if (const std::string problem = read_exactly(descriptor_, header_.data_offset + entry.begin, to); !problem.empty()) {
    return fail(ErrorCode::io, fmt::format("tensor {} of {} could not be read: {}", quoted_name(entry.name), name_, problem));
  }
  return {};
}

std::string SafetensorsFile::wrong_element_size(const SafetensorsEntry& entry, std::size_t size) const {
  return fmt::format("tensor {} of {} is {}: its bytes cannot be read as elements of {} bytes", quoted_name(entry.name), name_,
                     entry.dtype_name, size);
}

Result<> write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsTensor> tensors,
                           const std::map<std::string, std::string>& metadata) {
  const auto layout = layout_of(tensors, metadata);
  if (!layout) return fail(Error(layout.error()));
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return fail(ErrorCode::io, fmt::format("{} is a folder; a file's name is needed", path.string()));
  if (exists && !S_ISREG(status.st_mode)) {
    const Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (descriptor.get() < 0)
      return fail(ErrorCode::io, fmt::format("{} could not be opened for writing: {}", path.string(), errno_text(errno)));
    return write_file(descriptor.get(), path, layout->prefix, tensors, false);
  }
  // A link stays a link: what it points to is replaced.
  std::error_code ignored;
  const std::filesystem::path resolved = exists ? std::filesystem::canonical(path, ignored) : path;
  const std::filesystem::path& target = resolved.empty() ? path : resolved;
  const std::string temporary = fmt::format("{}.{}.tmp", target.string(), ::getpid());
  const Descriptor descriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) {
    return fail(ErrorCode::io,
                fmt::format("{} could not be created: {} (does its folder exist, and may you write to it?)", temporary, errno_text(errno)));
  }
  Result<> written = write_file(descriptor.get(), path, layout->prefix, tensors, true);
  if (written &&
      ((exists && ::fchmod(descriptor.get(), status.st_mode & 07777) != 0) || ::rename(temporary.c_str(), target.c_str()) != 0)) {
    written = fail(ErrorCode::io, fmt::format("{} could not be put in place: {}", path.string(), errno_text(errno)));
  }
  if (!written) ::unlink(temporary.c_str());
  return written;
}

}  // namespace kernwright::support
