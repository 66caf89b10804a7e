/* Kernwright for programs that want a C boundary: C11 or C++, one shared library (libkernwright.so), no other header.
 *
 * Handles. Every kw_… object is opaque. The function that makes one writes it to its last argument, or NULL where it failed; the caller
 * destroys it with the function of the same name. Destroying NULL does nothing. Objects keep what they need alive, so they may be destroyed
 * in any order. A null handle, pointer or name where one is needed is KW_INVALID_ARGUMENT.
 *
 * Structs. The first member of every struct is its size; kw_init() sets it and zeroes the rest, and zero is the default of every member. A
 * caller that was compiled against an older header passes a smaller size: the members it does not know count as zero. A caller of a newer
 * header may use an older library: members that the library does not know must be zero, otherwise the call answers KW_INVALID_ARGUMENT.
 * What the library writes to a struct ends at the caller's size; members that the library does not know are zeroed.
 *
 * Errors. Every call that can fail answers a kw_status; kw_last_error() is the text of the calling thread's last failure. No C++ exception
 * leaves the library.
 *
 * Memory. What is passed in is read before the call returns, unless it says otherwise. Text and arrays that the library answers belong to
 * the object they were asked of and live as long as it.
 *
 * Threads. Any handle may be used from any number of threads at once, except kw_unified_pool, kw_buffer and kw_stream: one thread at a
 * time. An object must not be destroyed while a call uses it. Callbacks may come from threads of the library's own, several at once where
 * that is said; they must not throw, and must not call into the object they were given to.
 *
 * A process that forks: the child makes a runtime and ops of its own, the parent's answer KW_UNSUPPORTED there; a kernel of the parent must
 * not be launched there. */
#ifndef KERNWRIGHT_KERNWRIGHT_H
#define KERNWRIGHT_KERNWRIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define KW_API __attribute__((visibility("default")))
#else
#define KW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Words ---------------------------------------------------------------------------------------------------------------------- */

typedef int32_t kw_status;
enum {
  KW_OK = 0,
  KW_INVALID_ARGUMENT = 1,     /* The caller's argument is wrong; the text names it, what came and what is legal. */
  KW_NOT_FOUND = 2,            /* A named template, file, device or entry does not exist. */
  KW_UNSUPPORTED = 3,          /* Legal words, but this device, driver or build cannot do it. */
  KW_DOES_NOT_FIT = 4,         /* No offered tile fits the device's limits. */
  KW_COMPILER_UNAVAILABLE = 5, /* No NVRTC (or host compiler) could be opened. */
  KW_COMPILE_FAILED = 6,       /* The compiler refused the source; the text carries its log. */
  KW_DRIVER_UNAVAILABLE = 7,   /* libcuda.so.1 could not be opened, is too old, or finds no device. */
  KW_LOAD_FAILED = 8,          /* A compiled artifact could not be loaded or is not what it says. */
  KW_LAUNCH_FAILED = 9,        /* The driver refused a launch for a reason other than resources. */
  KW_OUT_OF_MEMORY = 10,       /* Device or host memory is exhausted. */
  KW_DEVICE_FAULT = 11,        /* A sticky device error: the context is lost, nothing is retried. */
  KW_IO = 12,                  /* A file could not be read or written. */
  KW_MALFORMED = 13,           /* A file or text is not what its format says. */
  KW_CAPTURING = 14,           /* The call is not legal while the stream captures. */
  KW_TIMED_OUT = 15,           /* A bounded wait or compile ended at its limit. */
  KW_SEALED_MISS = 16,         /* Sealed: no store holds it, and nothing may be compiled. */
  KW_INTERNAL = 17             /* A broken invariant of the library itself. */
};

/* The text of the calling thread's last failed call: "code: message (while context)". Empty before the first. Valid until the thread's
 * next failed call. */
KW_API const char* kw_last_error(void);
/* "ok", "invalid_argument", …; "unknown" for another number. */
KW_API const char* kw_status_name(kw_status status);
/* Of the library that is loaded: major · 10,000 + minor · 100 + patch. */
KW_API uint32_t kw_version(void);

/* A device: the ordinal of a CUDA device, or the host interpreter, which is used only where it is asked for. */
typedef int32_t kw_device;
enum { KW_HOST = -1 };

/* A setting that is on, off, or left to the environment variable of docs/embedding.md and the default. */
typedef int32_t kw_switch;
enum { KW_SWITCH_DEFAULT = 0, KW_SWITCH_ON = 1, KW_SWITCH_OFF = 2 };

typedef int32_t kw_dtype;
enum { KW_BF16 = 1, KW_F16 = 2, KW_F32 = 3, KW_I32 = 4, KW_I64 = 5, KW_U8 = 6 };

/* A borrowed strided tensor. Shapes and strides are in elements; strides are always read. */
typedef struct kw_tensor {
  size_t size;
  void* data; /* May be NULL only where there is nothing to address, or the argument is optional: then it counts as absent. */
  kw_dtype dtype;
  int32_t rank; /* 0 to 4. */
  int64_t shape[4];
  int64_t stride[4];
} kw_tensor;

/* A CUstream (or cudaStream_t), borrowed; NULL is the legacy default stream, and the only stream of the host interpreter. */
typedef void* kw_stream_handle;

typedef struct kw_runtime kw_runtime;
typedef struct kw_kernel kw_kernel;
typedef struct kw_future kw_future;
typedef struct kw_reports kw_reports;
typedef struct kw_warm_result kw_warm_result;
typedef struct kw_sparse_mla_prefill kw_sparse_mla_prefill;
typedef struct kw_paged_kv kw_paged_kv;
typedef struct kw_paged_mla_decode kw_paged_mla_decode;
typedef struct kw_unified_pool kw_unified_pool;
typedef struct kw_buffer kw_buffer;
typedef struct kw_stream kw_stream;

/* ---- Runtime -------------------------------------------------------------------------------------------------------------------- */

typedef int32_t kw_log_level;
enum { KW_LOG_DEFAULT = 0, KW_LOG_ERROR = 1, KW_LOG_WARN = 2, KW_LOG_INFO = 3, KW_LOG_DEBUG = 4 };
/* A complete line, not terminated by a newline; `line[length]` is 0. May come from several threads at once, never from a launch that
 * succeeds at once. */
typedef void (*kw_log_callback)(void* user, kw_log_level level, const char* line, size_t length);

typedef int32_t kw_host_mode;
enum { KW_HOST_MODE_DEFAULT = 0, KW_HOST_FIBERS = 1, KW_HOST_FIBERS_ASAN = 2, KW_HOST_THREADS = 3 };

/* NULL and 0: the environment variable of docs/embedding.md, then the default. A value set here wins. */
typedef struct kw_runtime_options {
  size_t size;
  const char* store;                   /* Folder of the writable store. */
  const char* const* read_only_stores; /* Folders asked before it. Not NULL with a count of 0: none. */
  size_t read_only_store_count;
  int32_t memory_only;    /* Not 0: no disk store at all. */
  kw_switch store_shared; /* Others who write to the store are trusted. */
  kw_switch sealed;       /* Nothing is compiled: what no store holds is KW_SEALED_MISS. */
  int32_t compiles_at_once;
  uint64_t store_limit;        /* Bytes that the writable store may take; UINT64_MAX: any. */
  const char* compiler;        /* Which of the compilers that stores list counts where none is used. */
  const char* template_folder; /* Is laid over the built-in templates: own ones, or others of the same names. */
  const char* tuning_folder;   /* Tables read before the built-in ones. */
  const char* cuda_driver;     /* libcuda.so.1. */
  const char* nvrtc;           /* libnvrtc.so. */
  const char* const* nvrtc_search_folders;
  size_t nvrtc_search_folder_count;
  double compile_time_limit_seconds;
  double lock_wait_limit_seconds;
  uint64_t shared_memory_limit; /* Lowers every device's opt-in limit. */
  const char* remote_url;       /* The cache that machines share. */
  const char* remote_key_file;
  const char* remote_name_space;
  kw_host_mode host_mode;
  int32_t host_workers;
  uint64_t host_shared_memory;
  uint64_t host_seed;
  const char* host_compiler;
  kw_log_callback log; /* NULL: nothing is logged. Must stay callable until the runtime and everything made with it is destroyed. */
  void* log_user;
  kw_log_level log_level;
  int32_t reserved; /* 0. */
} kw_runtime_options;

/* Resolves the options and opens neither driver nor compiler nor store: each is opened when it is first needed. `options` may be NULL. */
KW_API kw_status kw_runtime_create(const kw_runtime_options* options, kw_runtime** runtime);
KW_API void kw_runtime_destroy(kw_runtime* runtime);
KW_API kw_status kw_runtime_sealed(const kw_runtime* runtime, int32_t* sealed);
/* The writable store's folder, "" where there is none; lives as long as the handle. */
KW_API kw_status kw_runtime_store_folder(const kw_runtime* runtime, const char** folder);
/* KW_DRIVER_UNAVAILABLE where there is no driver. */
KW_API kw_status kw_runtime_cuda_device_count(const kw_runtime* runtime, int32_t* count);

typedef struct kw_device_info {
  size_t size;
  int32_t capability_major; /* 0 for host. */
  int32_t capability_minor;
  int32_t max_threads_per_block;
  int32_t multiprocessors;
  uint64_t shared_memory_per_block; /* The opt-in limit. */
  uint64_t l2_bytes;
  uint64_t memory_bytes;
  char target[16]; /* "sm_90a", "host". */
  char name[128];
} kw_device_info;
KW_API kw_status kw_runtime_device(const kw_runtime* runtime, kw_device device, kw_device_info* info);

/* What the runtime did, so that a silent fall-back can be seen. docs/embedding.md. */
typedef struct kw_counters {
  size_t size;
  uint64_t memory_hits;
  uint64_t store_hits;
  uint64_t remote_hits;
  uint64_t remote_bad;
  uint64_t remote_unavailable;
  uint64_t misses;
  uint64_t sealed_misses;
  uint64_t compiles;
  double compile_seconds;
  uint64_t waits;
  uint64_t lock_waits;
  uint64_t lock_failures;
  uint64_t bad_entries;
  uint64_t step_downs;
  uint64_t fits_read;
  uint64_t fits_written;
  uint64_t store_warnings;
  uint64_t launches; /* Of all templates. */
} kw_counters;
KW_API kw_status kw_runtime_counters(const kw_runtime* runtime, kw_counters* counters);
/* Launches of one template's kernels; 0 for a name that nothing was launched of. */
KW_API kw_status kw_runtime_template_launches(const kw_runtime* runtime, const char* template_name, uint64_t* launches);

/* ---- Templates, prepare, launch --------------------------------------------------------------------------------------------------- */

typedef struct kw_source_file {
  size_t size;
  const char* name; /* Virtual, such as "engine/scale.cu": what #include "…" looks up. */
  const char* content;
  size_t content_bytes; /* 0: up to the terminating 0. */
} kw_source_file;
typedef struct kw_template_source {
  size_t size;
  const char* manifest; /* TOML; kernel_templates/README.md. */
  const kw_source_file* const* files;
  size_t file_count;
} kw_template_source;
/* Adds a template of the caller's own. A name that exists already with other content is KW_INVALID_ARGUMENT. */
KW_API kw_status kw_runtime_register_template(const kw_runtime* runtime, const kw_template_source* source);

typedef struct kw_prepare_request {
  size_t size;
  const char* template_name;
  const char* specialisation; /* "heads=8 group_size=8 d_qk=576 dtype=bf16"; NULL or "": every parameter has a default. */
  const char* tile;           /* "mma:m64n32s2w8"; NULL: the tuning tables', else the manifest's first that is legal. */
  size_t params_bytes;        /* sizeof the caller's parameter struct. */
  kw_device device;
  int32_t reserved; /* 0. */
} kw_prepare_request;
/* Slow, once a (template, specialisation, device, tile); later calls answer from memory. Steps down to the tile that fits. */
KW_API kw_status kw_prepare(const kw_runtime* runtime, const kw_prepare_request* request, kw_kernel** kernel);
/* The same on a thread of the runtime's own: kw_future_kernel() answers. */
KW_API kw_status kw_prepare_async(const kw_runtime* runtime, const kw_prepare_request* request, kw_future** future);
KW_API void kw_kernel_destroy(kw_kernel* kernel);

typedef struct kw_plan {
  size_t size;
  int32_t threads;        /* A block. */
  int32_t dynamic_shared; /* Bytes a block. */
  int32_t rows_per_block; /* Output rows of a block: the caller derives the grid from it. */
  int32_t blocks_per_sm;  /* 0: not persistent. */
  int32_t cluster;
  int32_t params_bytes;
} kw_plan;
KW_API kw_status kw_kernel_plan(const kw_kernel* kernel, kw_plan* plan);
KW_API kw_status kw_kernel_reports(const kw_kernel* kernel, kw_reports** reports);
/* Enqueues one launch of a grid of x · y · z blocks; `params` is copied before the call returns. Legal while the stream captures; takes no
 * lock and allocates nothing on a CUDA device. On host the launch has finished when the call returns. */
KW_API kw_status kw_kernel_launch(const kw_kernel* kernel, uint32_t x, uint32_t y, uint32_t z, const void* params, size_t params_bytes,
                                  kw_stream_handle stream);

/* What prepare did, one report a kernel in launch order. */
typedef int32_t kw_cache_source;
enum { KW_CACHE_MEMORY = 0, KW_CACHE_STORE = 1, KW_CACHE_REMOTE = 2, KW_CACHE_BUILT = 3 };
typedef struct kw_prepare_report {
  size_t size;
  const char* template_name;
  const char* specialisation;
  const char* target;
  const char* tile_asked;
  const char* tile_fitted;
  const char* fit_reason; /* "" where the tile asked for fitted. */
  const char* key;        /* The artifact's entry name in the store. */
  double compile_ms;      /* 0 unless it was built then. A kernel that was prepared before comes with its first report. */
  kw_cache_source cache;
  kw_device device;
  int32_t fit_recorded; /* 1: the answer came from a fit written earlier. */
  int32_t registers;    /* A thread; 0 on host. */
  uint64_t spill_stores;
  uint64_t spill_loads;
} kw_prepare_report;
KW_API kw_status kw_reports_count(const kw_reports* reports, size_t* count);
/* The report's text lives as long as `reports`. */
KW_API kw_status kw_reports_get(const kw_reports* reports, size_t index, kw_prepare_report* report);
KW_API void kw_reports_destroy(kw_reports* reports);

/* Waits up to `seconds` (below 0: for ever). KW_TIMED_OUT where the answer is not there by then; otherwise KW_OK, whatever the answer is.
 */
KW_API kw_status kw_future_wait(const kw_future* future, double seconds);
/* The answer; waits for it. A status other than KW_OK is that of the call made in the background. Asking for something else than the future
 * was made for is KW_INVALID_ARGUMENT. May be asked more than once: each answer is a handle of its own. */
KW_API kw_status kw_future_kernel(const kw_future* future, kw_kernel** kernel);
KW_API kw_status kw_future_sparse_mla_prefill(const kw_future* future, kw_sparse_mla_prefill** op);
KW_API kw_status kw_future_paged_mla_decode(const kw_future* future, kw_paged_mla_decode** op);
/* What is under way goes on. */
KW_API void kw_future_destroy(kw_future* future);

/* ---- Warming ---------------------------------------------------------------------------------------------------------------------- */

typedef struct kw_warm_request {
  size_t size;
  const char* template_name;
  const char* specialisation;
  const char* target; /* "sm_90a", "host": it need not be here. */
  const char* tile;   /* NULL: chosen as by kw_prepare. */
  int32_t first_only; /* Not 0: only the first candidate that fits, without those behind it. */
  int32_t reserved;   /* 0. */
} kw_warm_request;

typedef struct kw_warm_progress {
  size_t size;
  int32_t planning; /* 1: plan tables are being made, and `done` and `total` count those; then kernels. */
  int32_t reserved; /* 0. */
  size_t done;
  size_t total;
  double seconds_left;  /* Below 0: not known yet. */
  const char* finished; /* The kernel that this call tells of ("sparse_mla/prefill heads=8 … built"), or NULL. Valid during the call. */
} kw_warm_progress;
/* One call at a time, from the threads that compile. Answering not 0 cancels: nothing more is begun. */
typedef int32_t (*kw_warm_callback)(void* user, const kw_warm_progress* progress);

typedef struct kw_warm_options {
  size_t size;
  int32_t jobs;     /* Compiles at once; 0: as the runtime allows. */
  int32_t reserved; /* 0. */
  kw_warm_callback progress;
  void* user;
} kw_warm_options;

typedef struct kw_warm_summary {
  size_t size;
  size_t built;
  size_t hit;
  size_t skipped;
  size_t failed;
  size_t not_begun; /* Left out because the callback cancelled. */
  size_t not_stored;
  int32_t cancelled;
  int32_t reserved; /* 0. */
  double seconds;
} kw_warm_summary;

typedef int32_t kw_warm_outcome;
enum { KW_WARM_BUILT = 0, KW_WARM_HIT = 1, KW_WARM_SKIPPED = 2, KW_WARM_FAILED = 3 };
typedef struct kw_warm_item {
  size_t size;
  const char* template_name;
  const char* specialisation;
  const char* target;
  const char* tile; /* "" where the request failed as a whole. */
  const char* reason;
  const char* key;
  double compile_ms;
  kw_warm_outcome outcome;
  int32_t reserved; /* 0. */
} kw_warm_item;

/* Compiles into the store what a process will prepare; needs the compiler, not the device. A request or kernel that fails is an item of the
 * result and stops nothing else. `options` may be NULL. */
KW_API kw_status kw_warm(const kw_runtime* runtime, const kw_warm_request* const* requests, size_t request_count,
                         const kw_warm_options* options, kw_warm_result** result);
/* The same for a launch list (TOML, docs/cache.md). `targets`, where `target_count` is not 0, replace the list's. */
KW_API kw_status kw_warm_launch_list(const kw_runtime* runtime, const char* file, const char* const* targets, size_t target_count,
                                     const kw_warm_options* options, kw_warm_result** result);
KW_API kw_status kw_warm_result_summary(const kw_warm_result* result, kw_warm_summary* summary);
KW_API kw_status kw_warm_result_count(const kw_warm_result* result, size_t* count);
KW_API kw_status kw_warm_result_item(const kw_warm_result* result, size_t index, kw_warm_item* item);
KW_API void kw_warm_result_destroy(kw_warm_result* result);
/* Writes the launch list of what this runtime has prepared so far. */
KW_API kw_status kw_runtime_write_launch_list(const kw_runtime* runtime, const char* file);

/* ---- Sparse MLA prefill ------------------------------------------------------------------------------------------------------------ */

/* Tokens that share one gathered union of rows: chosen, one token (no union), 2, 4, 8 or 16. */
enum { KW_UNION_AUTO = 0, KW_UNION_OFF = 1 };

typedef struct kw_sparse_mla_prefill_options {
  size_t size;
  kw_device device;
  int32_t heads;            /* Query heads on this rank, 1 to 128. */
  int32_t max_topk;         /* The largest K that a run will be given, 1 to 4096; 0: 4096. */
  int32_t d_qk;             /* 576 (512 latent + 64 rope) or 512; 0: 576. */
  int32_t d_v;              /* 512; 0: 512. */
  kw_dtype dtype;           /* KW_BF16; 0: KW_BF16. */
  int32_t group_size;       /* KW_UNION_AUTO, KW_UNION_OFF, 2, 4, 8 or 16. */
  int32_t deterministic;    /* Not 0: batch-invariant; turns union off. */
  int32_t index_kpool;      /* Rows that one index stands for; only 1 is supported; 0: 1. */
  int32_t reserved;         /* 0. */
  uint64_t workspace_limit; /* Bounds the workspace; 0: 256 MiB. */
  const char* tile;         /* Of the attention kernel; NULL: from the tuning tables. */
} kw_sparse_mla_prefill_options;

/* Validates the options and prepares every kernel that a run may launch. */
KW_API kw_status kw_sparse_mla_prefill_create(const kw_runtime* runtime, const kw_sparse_mla_prefill_options* options,
                                              kw_sparse_mla_prefill** op);
KW_API kw_status kw_sparse_mla_prefill_create_async(const kw_runtime* runtime, const kw_sparse_mla_prefill_options* options,
                                                    kw_future** future);
KW_API void kw_sparse_mla_prefill_destroy(kw_sparse_mla_prefill* op);
/* Enough for any K up to max_topk; without union 0, or 256 where so many tokens had better be taken one by one. */
KW_API kw_status kw_sparse_mla_prefill_workspace_bytes(const kw_sparse_mla_prefill* op, int64_t tokens, int64_t kv_rows, uint64_t* bytes);

/* All on the op's device. T tokens, H heads, S kv rows, K slots. */
typedef struct kw_sparse_mla_prefill_arguments {
  size_t size;
  const kw_tensor* q;       /* [T, H, d_qk] bf16; innermost stride 1, others multiples of 8, 16-byte aligned. */
  const kw_tensor* kv;      /* [S, d_qk] bf16; innermost stride 1, row stride a multiple of 8, 16-byte aligned. V: its first 512 columns. */
  const kw_tensor* indices; /* [T, K] int32, dense. Below 0 or at or above S: an empty slot. */
  const kw_tensor* topk_length; /* [T] int32 or NULL: slots at or past it are not looked at; clamped to [0, K]. */
  const kw_tensor* attn_sink;   /* [H] fp32 or NULL: a logit (natural units) that joins the denominator only. */
  const kw_tensor* out;         /* [T, H, 512] bf16; strides as q's. */
  const kw_tensor* max_logits;  /* [T, H] fp32, dense, or NULL: the largest scaled logit; -inf where a token selects nothing. */
  const kw_tensor* lse;         /* [T, H] fp32, dense, or NULL: natural logarithm of the sum of exp(scaled logits), without the sink; +inf
                                   where a token selects nothing. */
  void* workspace;              /* At least the bytes asked for above, 256-byte aligned; one stream at a time. Per token it may be null. */
  uint64_t workspace_bytes;
  float sm_scale;   /* Finite. */
  int32_t reserved; /* 0. */
} kw_sparse_mla_prefill_arguments;
/* Enqueues the whole operation; allocates nothing, legal while the stream captures. */
KW_API kw_status kw_sparse_mla_prefill_run(const kw_sparse_mla_prefill* op, const kw_sparse_mla_prefill_arguments* arguments,
                                           kw_stream_handle stream);
/* The union that is used (KW_UNION_OFF, 2, 4, 8, 16) and, where `reason` is not NULL, why; the text lives as long as the op. */
KW_API kw_status kw_sparse_mla_prefill_union(const kw_sparse_mla_prefill* op, int32_t* group_size, const char** reason);
KW_API kw_status kw_sparse_mla_prefill_reports(const kw_sparse_mla_prefill* op, kw_reports** reports);

/* ---- Paged KV (docs/paged_kv.md) --------------------------------------------------------------------------------------------------- */

/* The kernels of one pool: id translation, KV writes, page moves. */
typedef struct kw_paged_kv_options {
  size_t size;
  kw_device device;
  int32_t page_size;      /* Tokens a page, 1 to 4096; 0: 64. */
  int32_t multiplier;     /* L: layers whose pages share one envelope; 0: 1. */
  int32_t has_table;      /* Not 0: ids go through a v2p table (a unified pool). */
  int64_t pages;          /* Physical pages of the pool. */
  kw_dtype token_dtype;   /* Of req_to_token: KW_I32 (also 0) or KW_I64. */
  kw_dtype request_dtype; /* Of requests, lengths and starts: KW_I32 or KW_I64 (also 0). */
  kw_dtype index_dtype;   /* Of the dense ids: KW_I32 (also 0) or KW_I64. */
  int32_t latent_width;   /* Elements of a kv row's two parts; 0: 512. */
  int32_t rope_width;     /* 0: 64; below 0: none. */
  kw_dtype dtype;         /* Of kv rows: KW_BF16 (also 0), KW_F16 or KW_U8. */
} kw_paged_kv_options;
KW_API kw_status kw_paged_kv_create(const kw_runtime* runtime, const kw_paged_kv_options* options, kw_paged_kv** op);
KW_API void kw_paged_kv_destroy(kw_paged_kv* op);
KW_API kw_status kw_paged_kv_reports(const kw_paged_kv* op, kw_reports** reports);

typedef struct kw_paged_kv_batch {
  size_t size;
  const kw_tensor* req_to_token; /* [slots, width] token_dtype: virtual token ids of a request in order. */
  const kw_tensor* requests;     /* [B] request_dtype: the slot of each request. */
  const kw_tensor* lengths;      /* [B] request_dtype: tokens; 0 or below: a padded lane. */
  const kw_tensor* starts;       /* [B] request_dtype, or NULL (0): the place in the slot's row of the first token. */
  const kw_tensor* v2p;          /* [V + 1] int64, or NULL: a static pool. */
} kw_paged_kv_batch;
/* One launch each (none where there is nothing to do), legal while the stream captures. The tensors are those of kernwright/paged_kv.hpp.
 */
KW_API kw_status kw_paged_kv_block_table(const kw_paged_kv* op, const kw_paged_kv_batch* batch, const kw_tensor* out,
                                         kw_stream_handle stream);
KW_API kw_status kw_paged_kv_token_indices(const kw_paged_kv* op, const kw_paged_kv_batch* batch, const kw_tensor* offsets,
                                           const kw_tensor* out, kw_stream_handle stream);
/* `count` and `v2p` may be NULL. */
KW_API kw_status kw_paged_kv_translate(const kw_paged_kv* op, const kw_tensor* in, const kw_tensor* out, const kw_tensor* count,
                                       const kw_tensor* v2p, kw_stream_handle stream);
KW_API kw_status kw_paged_kv_write_locations(const kw_paged_kv* op, const kw_tensor* in, const kw_tensor* out, const kw_tensor* v2p,
                                             kw_stream_handle stream);
/* `dense` not 0: locations are dense ids, else virtual token ids. `rope` is NULL where the pool has none. */
KW_API kw_status kw_paged_kv_write_rows(const kw_paged_kv* op, const kw_tensor* latent, const kw_tensor* rope, const kw_tensor* locations,
                                        int32_t dense, const kw_tensor* view, const kw_tensor* v2p, kw_stream_handle stream);
KW_API kw_status kw_paged_kv_move_pages(const kw_paged_kv* op, void* pool, uint64_t page_bytes, const kw_tensor* moves,
                                        kw_stream_handle stream);
KW_API kw_status kw_paged_kv_zero_pages(const kw_paged_kv* op, void* pool, uint64_t page_bytes, const kw_tensor* pages,
                                        kw_stream_handle stream);

/* Two sub-pools of pages that grow towards each other in one device buffer, with ids that survive compaction. */
typedef int32_t kw_pool_side;
enum { KW_POOL_KV = 0, KW_POOL_STATE = 1 };
typedef struct kw_unified_pool_options {
  size_t size;
  kw_device device;
  int32_t page_size;    /* Tokens a kv page; 0: 64. */
  int32_t layers;       /* Full-attention layers whose rows share a kv page's envelope; 0: 1. */
  int32_t latent_width; /* 0: 512. */
  int32_t rope_width;   /* 0: 64; below 0: none. */
  kw_dtype dtype;       /* 0: KW_BF16. */
  uint64_t pool_bytes;  /* Of both sides' pages. */
  int64_t kv_virtual_pages;
  uint64_t state_page_bytes; /* 0: there is no state side. */
  int64_t state_virtual_pages;
  int32_t deferred_compaction; /* Not 0: holes stay until kw_unified_pool_compact(). */
  int32_t keep_old_bytes;      /* Not 0: pages are handed out as they are, not zeroed. */
  kw_dtype token_dtype;        /* As in kw_paged_kv_options. */
  kw_dtype request_dtype;
  kw_dtype index_dtype;
  int32_t reserved; /* 0. */
} kw_unified_pool_options;
KW_API kw_status kw_unified_pool_create(const kw_runtime* runtime, const kw_unified_pool_options* options, kw_unified_pool** pool);
KW_API void kw_unified_pool_destroy(kw_unified_pool* pool);
/* Binds `count` virtual pages and writes their ids to `pages`. */
KW_API kw_status kw_unified_pool_allocate(kw_unified_pool* pool, kw_pool_side side, int64_t count, int64_t* pages, kw_stream_handle stream);
KW_API kw_status kw_unified_pool_free(kw_unified_pool* pool, kw_pool_side side, const int64_t* pages, int64_t count,
                                      kw_stream_handle stream);
/* `moved` may be NULL. */
KW_API kw_status kw_unified_pool_compact(kw_unified_pool* pool, kw_pool_side side, int64_t* moved, kw_stream_handle stream);
KW_API kw_status kw_unified_pool_wait(kw_unified_pool* pool, kw_stream_handle stream);
/* A layer's rows, [pages · L · page_size, latent_width + rope_width], indexed by dense ids. `view->size` must be set. */
KW_API kw_status kw_unified_pool_dense_view(const kw_unified_pool* pool, int32_t layer, kw_tensor* view);
/* [V + 1] int64 on the device. */
KW_API kw_status kw_unified_pool_v2p(const kw_unified_pool* pool, kw_pool_side side, kw_tensor* table);
/* Where a virtual page's envelope begins now; NULL where it is not bound. */
KW_API kw_status kw_unified_pool_page_address(const kw_unified_pool* pool, kw_pool_side side, int64_t page, void** address);
/* The translation ops prepared for this pool; a handle of its own. */
KW_API kw_status kw_unified_pool_kernels(const kw_unified_pool* pool, kw_paged_kv** op);
typedef struct kw_unified_pool_statistics {
  size_t size;
  int64_t used;
  int64_t holes;
  int64_t watermark;
  int64_t highest;
  int64_t moved_pages;
  int64_t compactions;
  int64_t free_virtual;
  int64_t free_pages;
} kw_unified_pool_statistics;
KW_API kw_status kw_unified_pool_get_statistics(const kw_unified_pool* pool, kw_pool_side side, kw_unified_pool_statistics* statistics);

/* Attention of a request's newest tokens over a block table. */
typedef struct kw_paged_mla_decode_options {
  size_t size;
  kw_device device;
  int32_t heads;        /* 1 to 128. */
  int32_t query_tokens; /* New tokens of each request, 1 to 8; 0: 1. */
  int32_t page_size;    /* 1, 2, 4, … 128; 0: 64. */
  int32_t d_qk;         /* 576 or 512; 0: 576. */
  int32_t d_v;          /* 512; 0: 512. */
  kw_dtype dtype;       /* 0: KW_BF16. */
  int32_t unified_pool; /* Not 0: page ids come from a unified pool, otherwise from a static one. */
  int32_t shares;       /* Shares of equal work, 1 to 65,536; 0: as many as keep the device busy. */
  int32_t reserved;     /* 0. */
  const char* tile;
} kw_paged_mla_decode_options;
KW_API kw_status kw_paged_mla_decode_create(const kw_runtime* runtime, const kw_paged_mla_decode_options* options,
                                            kw_paged_mla_decode** op);
KW_API kw_status kw_paged_mla_decode_create_async(const kw_runtime* runtime, const kw_paged_mla_decode_options* options,
                                                  kw_future** future);
KW_API void kw_paged_mla_decode_destroy(kw_paged_mla_decode* op);
KW_API kw_status kw_paged_mla_decode_workspace_bytes(const kw_paged_mla_decode* op, uint64_t* bytes);
typedef struct kw_paged_mla_decode_arguments {
  size_t size;
  const kw_tensor* q;           /* [B, s_q, H, d_qk] bf16. */
  const kw_tensor* kv;          /* [S, d_qk] bf16: a layer's dense view, or a static pool's rows. */
  const kw_tensor* block_table; /* [B, W] int32. */
  const kw_tensor* seq_lens;    /* [B] int32 or int64, dense: tokens of each request, the s_q new ones included. */
  const kw_tensor* out;         /* [B, s_q, H, 512] bf16. */
  const kw_tensor* lse;         /* [B, s_q, H] fp32, dense, or NULL. */
  void* workspace;              /* 256-byte aligned. */
  uint64_t workspace_bytes;
  float sm_scale;   /* Finite. */
  int32_t reserved; /* 0. */
} kw_paged_mla_decode_arguments;
KW_API kw_status kw_paged_mla_decode_run(const kw_paged_mla_decode* op, const kw_paged_mla_decode_arguments* arguments,
                                         kw_stream_handle stream);
KW_API kw_status kw_paged_mla_decode_reports(const kw_paged_mla_decode* op, kw_reports** reports);

/* ---- Memory and streams, for programs that have no engine around them -------------------------------------------------------------- */

KW_API kw_status kw_buffer_create(const kw_runtime* runtime, kw_device device, uint64_t bytes, kw_buffer** buffer);
KW_API void kw_buffer_destroy(kw_buffer* buffer);
KW_API kw_status kw_buffer_data(const kw_buffer* buffer, void** data);
/* Synchronous, and wait for no stream: synchronise the one that uses the buffer first. */
KW_API kw_status kw_buffer_upload(kw_buffer* buffer, const void* bytes, uint64_t count);
KW_API kw_status kw_buffer_download(const kw_buffer* buffer, void* bytes, uint64_t count);
KW_API kw_status kw_stream_create(const kw_runtime* runtime, kw_device device, kw_stream** stream);
KW_API void kw_stream_destroy(kw_stream* stream);
KW_API kw_status kw_stream_get_handle(const kw_stream* stream, kw_stream_handle* handle);
KW_API kw_status kw_stream_synchronize(const kw_stream* stream);

/* ---- Initialising structs ---------------------------------------------------------------------------------------------------------- */

/* kw_init(&options): zeroes a struct and sets its size. */
#define kw_init(pointer) kw_init_bytes((pointer), sizeof *(pointer))
static inline void kw_init_bytes(void* object, size_t size) {
  memset(object, 0, size);
  memcpy(object, &size, sizeof size);
}

/* A dense row-major tensor. */
static inline kw_tensor kw_dense(void* data, kw_dtype dtype, int32_t rank, const int64_t* shape) {
  kw_tensor tensor;
  int64_t step = 1;
  int32_t d;
  kw_init(&tensor);
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = rank;
  for (d = (rank < 4 ? rank : 4) - 1; d >= 0; --d) {
    tensor.shape[d] = shape[d];
    tensor.stride[d] = step;
    step *= shape[d];
  }
  return tensor;
}

#ifdef __cplusplus
}
#endif

#endif /* KERNWRIGHT_KERNWRIGHT_H */
