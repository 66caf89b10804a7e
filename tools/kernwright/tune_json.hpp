// A tuning as JSON and as a page.
#pragma once

#include "html_page.hpp"
#include "json_document.hpp"
#include "tune.hpp"

namespace kernwright::tool {

Json json_document(const TuneReport& report);
std::string clocks_of(const TuneReport& report);  ///< In a line; empty where the device has no clock to watch.
HtmlPage html_of(const TuneReport& report);

}  // namespace kernwright::tool
