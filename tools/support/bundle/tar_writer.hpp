// The tar archive inside a bundle, written through libarchive: ustar headers with owner 0, mode 0644 and time 0, nothing else.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"
#include "support/bundle/byte_stream.hpp"

namespace kernwright::support {

inline constexpr std::size_t kTarBlock = 512;

/// The same members give the same bytes. One thread at a time.
class TarWriter {
 public:
  explicit TarWriter(ByteSink sink);
  TarWriter(TarWriter&&) noexcept;
  TarWriter& operator=(TarWriter&&) noexcept;
  ~TarWriter();

  /// Begins a member; exactly `size` bytes must follow by write(), then end(). invalid_argument where a plain ustar header cannot hold it.
  Result<> begin(std::string_view name, Bytes size);
  Result<> write(std::span<const std::byte> bytes);
  Result<> end();
  /// A whole member.
  Result<> add(std::string_view name, std::span<const std::byte> content);
  /// The two empty blocks that end an archive.
  Result<> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kernwright::support
