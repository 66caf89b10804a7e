/* A C program that knows Kernwright by its install tree alone. */
#include <kernwright/kernwright.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  kw_runtime_options options;
  kw_runtime* runtime;
  kw_device_info info;
  kw_init(&options);
  options.memory_only = 1;
  kw_init(&info);
  if (kw_runtime_create(&options, &runtime) != KW_OK || kw_runtime_device(runtime, KW_HOST, &info) != KW_OK) {
    fprintf(stderr, "%s\n", kw_last_error());
    return 1;
  }
  kw_runtime_destroy(runtime);
  return strcmp(info.target, "host") != 0 || kw_version() < 100;
}
