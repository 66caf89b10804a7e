// Tables for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernwright::support {

/// Control characters become '?': text of files that others made must not steer a terminal. Bytes that are no UTF-8 stay.
std::string printable(std::string_view text);

/// Columns two blanks apart, each as wide as its widest cell, below their titles. Lines in between may say what the rows below them share;
/// the columns stay aligned across them.
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  /// Rows are indented by so many blanks.
  TextTable(std::vector<Column> columns, std::size_t indent) : columns_(std::move(columns)), indent_(indent) {}

  /// As many cells as there are columns.
  void row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), {}}); }
  /// A line across all columns.
  void heading(std::string text) { rows_.push_back({{}, std::move(text)}); }

  /// Ends in a line break; empty without rows. printable().
  [[nodiscard]] std::string text() const;

 private:
  struct Row {
    std::vector<std::string> cells;  // empty: a heading
    std::string heading;
  };
  [[nodiscard]] std::vector<std::size_t> widths() const;
  [[nodiscard]] std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::size_t indent_;
  std::vector<Row> rows_;
};

}  // namespace kernwright::support
