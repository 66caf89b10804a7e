/* The header as C11, twice and with nothing else. Padding would be a place in a struct that a size cannot tell of, so there is none. */
#include "kernwright/kernwright.h"

size_t kw_header_check(void);
size_t kw_header_check(void) {
  kw_runtime_options options;
  const int64_t shape[] = {2, 3};
  const kw_tensor tensor = kw_dense(NULL, KW_F32, 2, shape);
  kw_init(&options);
  return options.size + tensor.size;
}
