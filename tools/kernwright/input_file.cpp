#include "input_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

namespace kernwright::tool {
namespace {

constexpr std::size_t kShownWord = 80;  // characters of a word that is off

template <class T>
bool parse_whole(const std::string& text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

using support::SafetensorsEntry;

tl::unexpected<Error> InputFile::malformed(std::string_view problem) const {
  return fail(ErrorCode::malformed, fmt::format("{}: {}", file_.name(), problem));
}

Result<const SafetensorsEntry*> InputFile::find(std::string_view name, DType dtype, std::string_view dtype_name, std::string_view shape,
                                                std::size_t rank, bool required) const {
  const SafetensorsEntry* entry = file_.header().find(name);
  if (entry == nullptr) {
    if (!required) return nullptr;
    std::vector<std::string> present;
    for (const SafetensorsEntry& tensor : file_.header().tensors) present.push_back(tensor.name);
    return malformed(fmt::format("there is no tensor '{}'; needed are {}, found are: {}", name, needed_,
                                 present.empty() ? "none" : fmt::format("{}", fmt::join(present, ", ")).substr(0, 400)));
  }
  if (entry->dtype != dtype) return malformed(fmt::format("tensor '{}' is {}; legal is {}", name, entry->dtype_name, dtype_name));
  if (entry->shape.size() != rank) {
    return malformed(fmt::format("tensor '{}' has shape [{}]; legal is {}", name, fmt::join(entry->shape, ", "), shape));
  }
  return entry;
}

Result<> InputFile::require_extent(const SafetensorsEntry& entry, std::size_t dimension, std::int64_t extent, std::string_view why) const {
  if (entry.shape[dimension] == extent) return {};
  return malformed(fmt::format("tensor '{}' has shape [{}]; its extent {} must be {}: {}", entry.name, fmt::join(entry.shape, ", "),
                               dimension, extent, why));
}

Result<> InputFile::require_range(const SafetensorsEntry& entry, std::size_t dimension, std::int64_t low, std::int64_t high,
                                  std::string_view name) const {
  if (entry.shape[dimension] >= low && entry.shape[dimension] <= high) return {};
  return malformed(fmt::format("tensor '{}' has shape [{}]; {} (extent {}) must be {} to {}", entry.name, fmt::join(entry.shape, ", "),
                               name, dimension, low, high));
}

Result<float> InputFile::sm_scale(float otherwise) const {
  const auto& metadata = file_.header().metadata;
  const auto found = metadata.find("sm_scale");
  if (found == metadata.end()) return otherwise;
  float scale = 0;
  if (parse_whole(found->second, scale) && std::isfinite(scale)) return scale;
  return malformed(fmt::format("the metadata's sm_scale is '{}'; legal is a finite number", found->second.substr(0, kShownWord)));
}

Result<std::int64_t> InputFile::number(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t otherwise) const {
  const auto& metadata = file_.header().metadata;
  const auto found = metadata.find(std::string(name));
  if (found == metadata.end()) return otherwise;
  std::int64_t value = 0;
  if (parse_whole(found->second, value) && value >= low && value <= high) return value;
  return malformed(fmt::format("the metadata's {} is '{}'; legal is {} to {}", name, found->second.substr(0, kShownWord), low, high));
}

}  // namespace kernwright::tool
