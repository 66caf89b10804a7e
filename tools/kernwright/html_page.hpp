// A report as one file that a browser opens offline: style, Chart.js and data stand in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json_document.hpp"

namespace kernwright::tool {

/// Text for between tags and for attributes in double quotes.
std::string html_text(std::string_view text);

/// JSON that may stand inside a script element: no "<" is left in it.
std::string script_json(const Json& json);

/// Builds the body piece by piece. Everything that comes from data goes through html_text().
class HtmlPage {
 public:
  explicit HtmlPage(std::string title) : title_(std::move(title)) {}

  void heading(std::string_view text);
  void small_heading(std::string_view text);
  void paragraph(std::string_view text);
  struct Fact {
    std::string name, value;
  };
  void facts(const std::vector<Fact>& facts);
  /// Sections that can be opened and closed; `open`: at first. Every begin has its end.
  void begin_section(std::string_view summary, bool open);
  void end_section();

  struct Column {
    enum class Kind : std::uint8_t { text, code, number, prose };
    std::string title;
    Kind kind = Kind::text;
  };
  struct Row {
    std::vector<std::string> cells;
    bool chosen = false;  ///< Set off from the others.
  };
  void table(const std::vector<Column>& columns, const std::vector<Row>& rows);
  /// A chart that html/charts.js draws: {"kind":"bars"|"points"|"heat",…}; its id is added here. `caption` also stands for it where it
  /// cannot be seen.
  void chart(std::string_view caption, Json spec);
  /// Kept in the page as it is, for programs.
  void data(Json data) { data_ = std::move(data); }

  [[nodiscard]] std::string text() const;

 private:
  std::string title_, body_;
  Json charts_ = Json::array();
  Json data_;
};

/// Replaced whole.
Result<> write_page(const std::string& file, const HtmlPage& page);

}  // namespace kernwright::tool
