// The header as C++, twice and with nothing else.
#include "kernwright/kernwright.h"

size_t kw_header_check();
size_t kw_header_check() {
  kw_runtime_options options;
  const int64_t shape[] = {2, 3};
  const kw_tensor tensor = kw_dense(nullptr, KW_F32, 2, shape);
  kw_init(&options);
  return options.size + tensor.size;
}
