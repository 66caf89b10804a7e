#include "support/text_table.hpp"

#include <algorithm>
#include <iterator>

namespace kernwright::support {
namespace {

/// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return result;
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width_of(column.title));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) widths[i] = std::max(widths[i], width_of(row.cells[i]));
  }
  return widths;
}

std::string TextTable::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string text(indent_, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths[i] - width_of(cells[i]), ' ');
    const std::string cell = printable(cells[i]);
    if (i > 0) text += "  ";
    text += columns_[i].align == Align::right ? blanks + cell : cell + blanks;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string TextTable::text() const {
  if (rows_.empty()) return {};
  std::vector<std::string> titles;
  std::ranges::transform(columns_, std::back_inserter(titles), &Column::title);
  const std::vector<std::size_t> all = widths();
  std::string text = line(titles, all);
  for (const Row& row : rows_) text += row.cells.empty() ? printable(row.heading) + "\n" : line(row.cells, all);
  return text;
}

}  // namespace kernwright::support
