// A benchmark as JSON and as a page.
#pragma once

#include "bench_sparse_mla.hpp"
#include "html_page.hpp"
#include "json_document.hpp"

namespace kernwright::tool {

Json json_document(const BenchReport& report);
HtmlPage html_of(const BenchReport& report);

}  // namespace kernwright::tool
