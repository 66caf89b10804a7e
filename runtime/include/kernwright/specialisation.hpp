// The compile-time constants of a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernwright/dtype.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

using ParameterValue = std::variant<std::int64_t, DType>;

/// Named constants in the order given. A manifest says which names and values are legal; parameters it gives a default may be left out.
class Specialisation {
 public:
  Specialisation() = default;
  Specialisation& set(std::string_view name, std::int64_t value);
  Specialisation& set(std::string_view name, DType value);
  [[nodiscard]] std::optional<ParameterValue> get(std::string_view name) const;

  struct Item {
    std::string name;
    ParameterValue value;
    friend bool operator==(const Item&, const Item&) = default;
  };
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  /// "heads=8 group_size=8 d_qk=576 dtype=bf16".
  [[nodiscard]] std::string text() const;
  /// Reads text()'s form back: name=value parts between spaces, a value being an integer or a dtype's name. invalid_argument names the
  /// part.
  static Result<Specialisation> parse(std::string_view text);
  friend bool operator==(const Specialisation&, const Specialisation&) = default;

 private:
  std::vector<Item> items_;
};

std::string to_string(const ParameterValue& value);

}  // namespace kernwright
