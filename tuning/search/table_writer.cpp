#include "search/table_writer.hpp"

#include <fmt/format.h>

#include "manifest/toml_reader.hpp"

namespace kernwright::tuning {
namespace {

std::string when_text(const Specialisation& known) {
  std::string values;
  for (const auto& [name, value] : known.items()) {
    const std::string text = std::holds_alternative<DType>(value) ? toml_quote(to_string(value)) : to_string(value);
    values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", name, text);
  }
  return values.empty() ? "" : fmt::format("when = {{ {} }}\n", values);
}

std::string origin_text(const Origin& origin, const std::string& digest, double gain, double noise, const std::string& clocks) {
  const std::string driver = origin.driver.empty() ? "" : fmt::format(", driver {}", origin.driver);
  std::string shapes;
  for (const std::string& shape : origin.shapes) shapes += fmt::format("{}{}", shapes.empty() ? "" : ", ", toml_quote(shape));
  std::string text = fmt::format("digest = {}\nmeasured = {}\n", toml_quote(digest),
                                 toml_quote(fmt::format("{}{}, {}, {}", origin.device.name, driver, origin.compiler, origin.date)));
  if (!origin.driver.empty()) text += fmt::format("driver = {}\n", toml_quote(origin.driver));
  text += fmt::format("compiler = {}\ndate = {}\nshapes = [{}]\ngain = {:.4f}\nnoise = {:.4f}\n", toml_quote(origin.compiler),
                      toml_quote(origin.date), shapes, gain, noise);
  if (!clocks.empty()) text += fmt::format("clocks = {}\n", toml_quote(clocks));
  return text;
}

/// The fields that a row of either kind begins with.
std::string key_text(const Origin& origin, const std::string& template_name, const Specialisation& known) {
  return fmt::format("template = {}\n{}target = {}\ndevice = {}\n", toml_quote(template_name), when_text(known),
                     toml_quote(origin.device.target.name()), toml_quote(origin.device.name));
}

}  // namespace

std::string write_tuning_table(const Origin& origin, const std::vector<TunedTile>& tiles, const std::vector<TunedChoice>& choices) {
  std::string text = fmt::format(
      "# Measured by kernwright tune on {} ({}). gain: the default's time over this one's, geometric mean over the shapes; noise: what "
      "the\n"
      "# gain had to exceed. A row holds for the sources whose digest it names; docs/tuning.md.\nformat = 1\n",
      toml_quote(origin.device.name), origin.device.target.name());
  for (const TunedTile& row : tiles) {
    text += "\n[[tile]]\n" + key_text(origin, row.subject.template_name, row.subject.specialisation);
    text += fmt::format("tile = {}\n", toml_quote(row.tile.text()));
    if (row.default_tile) text += fmt::format("default = {}\n", toml_quote(row.default_tile->text()));
    text += origin_text(origin, row.digest, row.gain, row.noise, row.clocks);
  }
  for (const TunedChoice& row : choices) {
    text += "\n[[preference]]\n" + key_text(origin, row.template_name, row.known);
    text += fmt::format("parameter = {}\nvalue = {}\n", toml_quote(row.parameter), row.value);
    text += origin_text(origin, row.digest, row.gain, row.noise, row.clocks);
  }
  return text;
}

}  // namespace kernwright::tuning
