// The tensors of an input file, asked for by name, dtype and shape. All messages name the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "support/safetensors.hpp"

namespace kernwright::tool {

/// A view: the file must outlive it.
class InputFile {
 public:
  /// `needed` names the tensors that there must be, for the message where one is not.
  InputFile(const support::SafetensorsFile& file, std::string_view needed) : file_(file), needed_(needed) {}

  [[nodiscard]] tl::unexpected<Error> malformed(std::string_view problem) const;
  /// Null where it is not there and not required.
  [[nodiscard]] Result<const support::SafetensorsEntry*> find(std::string_view name, DType dtype, std::string_view dtype_name,
                                                              std::string_view shape, std::size_t rank, bool required) const;
  [[nodiscard]] Result<> require_extent(const support::SafetensorsEntry& entry, std::size_t dimension, std::int64_t extent,
                                        std::string_view why) const;
  [[nodiscard]] Result<> require_range(const support::SafetensorsEntry& entry, std::size_t dimension, std::int64_t low, std::int64_t high,
                                       std::string_view name) const;
  /// The metadata's sm_scale, else `otherwise`.
  [[nodiscard]] Result<float> sm_scale(float otherwise) const;
  /// A whole number of the metadata from `low` to `high`, else `otherwise`.
  [[nodiscard]] Result<std::int64_t> number(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t otherwise) const;

 private:
  const support::SafetensorsFile& file_;
  std::string_view needed_;
};

}  // namespace kernwright::tool
