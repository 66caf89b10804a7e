#include "html_page.hpp"

#include <fmt/format.h>

#include "platform/file_system.hpp"
#include "templates/embedded_file.hpp"

namespace kernwright {
std::vector<EmbeddedFile> embedded_page_files();
std::vector<EmbeddedFile> embedded_chart_library();
}  // namespace kernwright

namespace kernwright::tool {
namespace {

std::string_view embedded(const std::vector<EmbeddedFile>& files, std::string_view name) {
  for (const EmbeddedFile& file : files) {
    if (file.name == name) return file.content;
  }
  return {};
}

std::string_view class_of(HtmlPage::Column::Kind kind) {
  using Kind = HtmlPage::Column::Kind;
  switch (kind) {
    case Kind::text: return "text";
    case Kind::code: return "code";
    case Kind::number: return "number";
    case Kind::prose: return "prose";
  }
  return "text";
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      case '\0': escaped += "\xef\xbf\xbd"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string script_json(const Json& json) {
  const std::string plain = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(plain.size());
  // "<" can stand in strings alone, where the escape means the same.
  for (const char c : plain) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void HtmlPage::heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", html_text(text));
}

void HtmlPage::small_heading(std::string_view text) {
  body_ += fmt::format("<h3>{}</h3>\n", html_text(text));
}

void HtmlPage::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", html_text(text));
}

void HtmlPage::facts(const std::vector<Fact>& facts) {
  body_ += "<dl>\n";
  for (const Fact& fact : facts) body_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(fact.name), html_text(fact.value));
  body_ += "</dl>\n";
}

void HtmlPage::begin_section(std::string_view summary, bool open) {
  body_ += fmt::format("<details{}>\n<summary>{}</summary>\n", open ? " open" : "", html_text(summary));
}

void HtmlPage::end_section() {
  body_ += "</details>\n";
}

void HtmlPage::table(const std::vector<Column>& columns, const std::vector<Row>& rows) {
  body_ += "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const Column& column : columns) {
    body_ += fmt::format("<th scope=\"col\" class=\"{}\">{}</th>", class_of(column.kind), html_text(column.title));
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (const Row& row : rows) {
    body_ += row.chosen ? "<tr class=\"chosen\">" : "<tr>";
    for (std::size_t i = 0; i < row.cells.size() && i < columns.size(); ++i) {
      body_ += fmt::format("<td class=\"{}\">{}</td>", class_of(columns[i].kind), html_text(row.cells[i]));
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::chart(std::string_view caption, Json spec) {
  const std::string id = fmt::format("chart-{}", charts_.size() + 1);
  spec["id"] = id;
  charts_.push_back(std::move(spec));
  body_ += fmt::format(
      "<figure><figcaption>{0}</figcaption><div class=\"scroll\"><div class=\"chart\"><canvas id=\"{1}\" role=\"img\" "
      "aria-label=\"{0}\"></canvas></div></div></figure>\n",
      html_text(caption), id);
}

std::string HtmlPage::text() const {
  const auto page = embedded_page_files(), library = embedded_chart_library();
  // Nothing is fetched, whatever the data says.
  constexpr std::string_view kPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n"
      "<h1>{}</h1>\n{}<noscript><p>The charts need JavaScript; every figure is in the tables.</p></noscript>\n"
      "<script type=\"application/json\" id=\"kernwright-data\">{}</script>\n"
      "<script type=\"application/json\" id=\"kernwright-charts\">{}</script>\n"
      "<!-- Chart.js:\n{}-->\n<script>\n{}\n</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      kPolicy, html_text(title_), embedded(page, "page.css"), html_text(title_), body_, script_json(data_), script_json(charts_),
      embedded(library, "LICENSE"), embedded(library, "chart.min.js"), embedded(page, "charts.js"));
}

Result<> write_page(const std::string& file, const HtmlPage& page) {
  auto written = FileSystem::posix()->publish(file, as_bytes(page.text()));
  if (!written) return fail(std::move(written.error()).within("writing --report " + file));
  return {};
}

}  // namespace kernwright::tool
