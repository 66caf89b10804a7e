#include "recording/safetensors_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace kernwright {
namespace {

constexpr std::size_t kLengthBytes = 8;

/// A JSON string. Bytes past 0x7f go through as they are.
std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

Result<SafetensorsLayout> safetensors_layout(std::span<const SafetensorsShape> tensors,
                                             const std::map<std::string, std::string>& metadata) {
  SafetensorsLayout layout;
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (bool first = true; const auto& [key, value] : metadata) {
      json += fmt::format("{}{}:{}", first ? "" : ",", json_string(key), json_string(value));
      first = false;
    }
    json += "}";
  }
  std::uint64_t offset = 0;
  std::set<std::string_view> names{"__metadata__"};
  for (const SafetensorsShape& tensor : tensors) {
    const auto invalid = [&](std::string_view problem) {
      return fail(ErrorCode::invalid_argument, fmt::format("tensor {}: {}", quoted_name(tensor.name), problem));
    };
    if (!names.insert(tensor.name).second) return invalid("its name is taken; names in a safetensors file are distinct");
    const auto* known = std::ranges::find(kSafetensorsDTypes, std::optional(tensor.dtype), &SafetensorsDType::dtype);
    if (known == kSafetensorsDTypes.end()) return invalid("safetensors has no such dtype");
    std::uint64_t size = known->bytes;
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0 || __builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size)) {
        return invalid(fmt::format("shape [{}] is not legal", fmt::join(tensor.shape, ", ")));
      }
    }
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json.size() == 1 ? "" : ",",
                        json_string(tensor.name), known->name, fmt::join(tensor.shape, ","), offset, offset + size);
    layout.offsets.push_back(offset);
    layout.sizes.push_back(size);
    offset += size;
  }
  json += "}";
  json.resize((json.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  if (json.size() > kSafetensorsHeaderLimit) return fail(ErrorCode::invalid_argument, "the header would pass 100,000,000 bytes");
  for (std::size_t i = 0; i < kLengthBytes; ++i) layout.prefix += static_cast<char>(json.size() >> (8 * i) & 0xff);
  layout.prefix += json;
  for (std::uint64_t& each : layout.offsets) each += layout.prefix.size();
  layout.file_size = layout.prefix.size() + offset;
  return layout;
}

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kShown = 80;
  std::string text = "'";
  for (const char c : name.substr(0, kShown)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  text += name.size() > kShown ? "…'" : "'";
  return text;
}

}  // namespace kernwright
