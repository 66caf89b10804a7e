/* Sparse MLA prefill from C, on a problem whose answer is known: with q = 0 every selected row weighs the same, so out is the mean of the
 * selected rows.
 *   c_sparse_mla [--host]     the first CUDA device, or the host interpreter */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernwright/kernwright.h"

enum { TOKENS = 50, HEADS = 8, KV_ROWS = 256, TOPK = 32, QK = 576, V = 512 };

static void or_exit(kw_status status) {
  if (status == KW_OK) return;
  fprintf(stderr, "%s\n", kw_last_error());
  exit(1);
}

static void print_line(void* user, kw_log_level level, const char* line, size_t length) {
  (void)user;
  fprintf(stderr, "level %d: %.*s\n", (int)level, (int)length, line);
}

static uint16_t bf16(float value) { /* exact values only */
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}
static float from_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static kw_buffer* buffer_of(const kw_runtime* runtime, kw_device device, const void* bytes, uint64_t count) {
  kw_buffer* buffer;
  or_exit(kw_buffer_create(runtime, device, count, &buffer));
  if (bytes != NULL) or_exit(kw_buffer_upload(buffer, bytes, count));
  return buffer;
}

static kw_tensor tensor_of(const kw_buffer* buffer, kw_dtype dtype, int32_t rank, const int64_t* shape) {
  void* data;
  or_exit(kw_buffer_data(buffer, &data));
  return kw_dense(data, dtype, rank, shape);
}

int main(int argc, char** argv) {
  static uint16_t q[TOKENS * HEADS * QK], kv[KV_ROWS * QK], out[TOKENS * HEADS * V];
  static int32_t indices[TOKENS * TOPK];
  const kw_device device = argc > 1 && strcmp(argv[1], "--host") == 0 ? KW_HOST : 0;
  kw_runtime_options options;
  kw_runtime* runtime;
  kw_sparse_mla_prefill_options shape;
  kw_sparse_mla_prefill* op;
  kw_sparse_mla_prefill_arguments arguments;
  kw_stream* stream;
  kw_stream_handle handle;
  kw_reports* reports;
  kw_counters counters;
  uint64_t workspace_bytes;
  size_t count, i;
  int64_t wrong = 0;

  kw_init(&options);
  options.log = print_line;
  or_exit(kw_runtime_create(&options, &runtime));

  /* Once, when the engine starts: compiles or reads the store, loads, steps down where the device asks for it. */
  kw_init(&shape);
  shape.device = device;
  shape.heads = HEADS;
  shape.max_topk = TOPK;
  shape.group_size = 4;
  or_exit(kw_sparse_mla_prefill_create(runtime, &shape, &op));
  or_exit(kw_sparse_mla_prefill_workspace_bytes(op, TOKENS, KV_ROWS, &workspace_bytes));

  /* The engine's own tensors. kv holds small integers, so that the mean of 32 of them is exact in bf16. */
  for (i = 0; i < KV_ROWS * QK; ++i) kv[i] = bf16((float)((i / QK / 3 + i / QK * (i % QK)) % 8));
  for (i = 0; i < TOKENS * TOPK; ++i) indices[i] = (int32_t)((i / TOPK + i % TOPK * 5) % KV_ROWS);
  const int64_t q_shape[] = {TOKENS, HEADS, QK}, kv_shape[] = {KV_ROWS, QK}, index_shape[] = {TOKENS, TOPK},
                out_shape[] = {TOKENS, HEADS, V};
  kw_buffer* buffers[] = {buffer_of(runtime, device, q, sizeof q), buffer_of(runtime, device, kv, sizeof kv),
                          buffer_of(runtime, device, indices, sizeof indices), buffer_of(runtime, device, NULL, sizeof out),
                          buffer_of(runtime, device, NULL, workspace_bytes)};
  const kw_tensor q_tensor = tensor_of(buffers[0], KW_BF16, 3, q_shape), kv_tensor = tensor_of(buffers[1], KW_BF16, 2, kv_shape),
                  index_tensor = tensor_of(buffers[2], KW_I32, 2, index_shape), out_tensor = tensor_of(buffers[3], KW_BF16, 3, out_shape);
  or_exit(kw_stream_create(runtime, device, &stream));
  or_exit(kw_stream_get_handle(stream, &handle));

  /* Each request: no allocation, no lock, legal while the stream captures. */
  kw_init(&arguments);
  arguments.q = &q_tensor;
  arguments.kv = &kv_tensor;
  arguments.indices = &index_tensor;
  arguments.out = &out_tensor;
  arguments.sm_scale = 1.0F / 24.0F;
  or_exit(kw_buffer_data(buffers[4], &arguments.workspace));
  arguments.workspace_bytes = workspace_bytes;
  or_exit(kw_sparse_mla_prefill_run(op, &arguments, handle));
  or_exit(kw_stream_synchronize(stream));

  or_exit(kw_buffer_download(buffers[3], out, sizeof out));
  for (i = 0; i < TOKENS * HEADS * V; ++i) {
    const size_t token = i / (HEADS * V);
    float sum = 0;
    for (size_t k = 0; k < TOPK; ++k) sum += from_bf16(kv[(size_t)indices[token * TOPK + k] * QK + i % V]);
    wrong += from_bf16(out[i]) != sum / TOPK;
  }
  or_exit(kw_sparse_mla_prefill_reports(op, &reports));
  or_exit(kw_reports_count(reports, &count));
  for (i = 0; i < count; ++i) {
    kw_prepare_report report;
    kw_init(&report);
    or_exit(kw_reports_get(reports, i, &report));
    printf("%s for %s: tile %s\n", report.template_name, report.target, report.tile_fitted);
  }
  kw_init(&counters);
  or_exit(kw_runtime_counters(runtime, &counters));
  printf("%llu compiler runs, %llu artifacts from stores\n", (unsigned long long)counters.compiles,
         (unsigned long long)counters.store_hits);
  printf("%lld values differ from the means of the selected rows\n", (long long)wrong);

  kw_reports_destroy(reports);
  for (i = 0; i < sizeof buffers / sizeof *buffers; ++i) kw_buffer_destroy(buffers[i]);
  kw_stream_destroy(stream);
  kw_sparse_mla_prefill_destroy(op);
  kw_runtime_destroy(runtime);
  return wrong == 0 ? 0 : 1;
}
