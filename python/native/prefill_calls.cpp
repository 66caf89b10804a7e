#include "prefill_calls.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "kernwright/kernwright.h"
#include "tensor_argument.hpp"

namespace kernwright::python {
namespace {

/// What an op is made for.
struct OpKey {
  kw_device device = KW_HOST;
  std::int32_t heads = 0;
  std::int32_t d_qk = 0;
  std::int32_t max_topk = 0;
  std::int32_t group_size = KW_UNION_OFF;
  std::int32_t deterministic = 0;
  friend bool operator==(const OpKey&, const OpKey&) = default;
};

struct Op {
  OpKey key;
  Reference owner;  ///< The Python object that destroys the handle.
  kw_sparse_mla_prefill* handle = nullptr;
};

/// The object's C++ part.
struct State {
  Reference make_op;       ///< (device, heads, d_qk, max_topk, group_size, deterministic) → an op with `_handle`.
  Reference make_scratch;  ///< (bytes, q) → an array of that many bytes on q's device.
  Reference error_of;      ///< (status, text) → an exception.
  ExchangeTypes types;
  std::vector<Op> ops;
};

struct PrefillCalls {
  PyObject_HEAD State* state;
};

State& state_of(PyObject* self) {
  return *reinterpret_cast<PrefillCalls*>(self)->state;
}

/// Python's error from the library's last one. Answers null.
PyObject* raise_status(const State& state, kw_status status) {
  const Reference error = Reference::take(PyObject_CallFunction(state.error_of.get(), "is", static_cast<int>(status), kw_last_error()));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return nullptr;
}

/// Arguments of run(), in their order: tensors first.
constexpr std::size_t kQ = 0, kKv = 1, kIndices = 2, kTopkLength = 3, kAttnSink = 4, kOut = 5, kMaxLogits = 6, kLse = 7;
constexpr std::size_t kTensors = 8;
constexpr std::size_t kWorkspace = 8, kScale = 9, kValueColumns = 10, kUnion = 11, kDeterministic = 12, kStream = 13;
constexpr Py_ssize_t kArguments = 14;
constexpr std::array<const char*, kTensors> kNames{"q", "kv", "indices", "topk_length", "attn_sink", "out", "max_logits", "lse"};
constexpr bool is_optional(std::size_t tensor) {
  return tensor == kTopkLength || tensor == kAttnSink || tensor == kMaxLogits || tensor == kLse;
}

bool read_union(PyObject* given, std::int32_t& group_size) {
  if (given == Py_None || (PyUnicode_Check(given) && PyUnicode_CompareWithASCIIString(given, "auto") == 0)) {
    group_size = KW_UNION_AUTO;
    return true;
  }
  long value = -1;
  if (PyIndex_Check(given)) {
    const Reference number = Reference::take(PyNumber_Index(given));
    if (number) value = PyLong_AsLong(number.get());
  }
  if (value == 0 || value == 2 || value == 4 || value == 8 || value == 16) {
    group_size = value == 0 ? static_cast<std::int32_t>(KW_UNION_OFF) : static_cast<std::int32_t>(value);
    return true;
  }
  PyErr_Clear();
  PyErr_Format(PyExc_ValueError, "argument union: it is %R; legal is 0 (off), 2, 4, 8, 16 or \"auto\"", given);
  return false;
}

std::int32_t rounded_topk(std::int64_t topk) {
  constexpr std::uint32_t kLargest = 4096;
  if (topk < 1 || topk > std::int64_t{kLargest}) return kLargest;  // the run itself refuses it, and says so
  return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(topk)));
}

const Op* find_op(State& state, const OpKey& key) {
  for (std::size_t i = 0; i < state.ops.size(); ++i) {
    if (state.ops[i].key == key) {
      if (i > 0) std::swap(state.ops[i], state.ops[i - 1]);  // what is used most moves to the front
      return &state.ops[i > 0 ? i - 1 : 0];
    }
  }
  Reference owner = Reference::take(PyObject_CallFunction(state.make_op.get(), "iiiiii", key.device, key.heads, key.d_qk, key.max_topk,
                                                          key.group_size, key.deterministic));
  if (!owner) return nullptr;
  const Reference address = Reference::take(PyObject_GetAttrString(owner.get(), "_handle"));
  if (!address) return nullptr;
  auto* const handle = static_cast<kw_sparse_mla_prefill*>(PyLong_AsVoidPtr(address.get()));
  if (handle == nullptr) return nullptr;
  for (const Op& op : state.ops) {
    if (op.key == key) return &op;  // another thread was here while this one prepared
  }
  state.ops.push_back({key, std::move(owner), handle});
  return &state.ops.back();
}

constexpr std::uintptr_t kAlignment = 256;
void* align(void* data) {
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(data) + kAlignment - 1) / kAlignment * kAlignment);
}

/// The stream that the call runs on: the one given, or the current one of the framework that q came from.
bool read_stream(PyObject* given, const TensorArgument& q, void*& stream) {
  stream = nullptr;
  if (given != Py_None) {
    stream = PyLong_AsVoidPtr(given);
    if (stream != nullptr || PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "argument stream: it is %R; legal is a stream's handle as an integer, or None", given);
    return false;
  }
  if (q.device == KW_HOST || q.exchange == nullptr || q.exchange->current_stream == nullptr) return true;
  return q.exchange->current_stream(dlpack::kCuda, q.device, &stream) == 0;
}

/// `optional`: a call without the workspace is legal, and one is made only where that is easy.
bool read_workspace(State& state, PyObject* given, PyObject* q_object, const TensorArgument& q, std::uint64_t needed, bool optional,
                    PyObject* stream, TensorArgument& array, Reference& scratch, kw_sparse_mla_prefill_arguments& call) {
  if (needed == 0) return true;
  const std::uint64_t with_alignment = needed + kAlignment;
  const bool own = given == Py_None;
  if (own) {
    scratch =
        Reference::take(PyObject_CallFunction(state.make_scratch.get(), "KO", static_cast<unsigned long long>(with_alignment), q_object));
    if (!scratch) {
      if (!optional || PyErr_ExceptionMatches(PyExc_ValueError) == 0) return false;
      PyErr_Clear();
      return true;
    }
    given = scratch.get();
  }
  if (!array.read(given, "workspace", state.types, stream)) return false;
  std::int64_t elements = 1;
  std::int64_t row_major = 1;
  bool dense = true;
  for (std::int32_t d = array.tensor.rank - 1; d >= 0; --d) {
    dense = dense && (array.tensor.shape[d] <= 1 || array.tensor.stride[d] == row_major);
    row_major *= array.tensor.shape[d];
    elements *= array.tensor.shape[d];
  }
  if (array.tensor.dtype != KW_U8 || !dense || array.device != q.device) {
    PyErr_SetString(PyExc_ValueError, "argument workspace: legal is a contiguous array of uint8 on the device of q");
    return false;
  }
  call.workspace = align(array.tensor.data);
  const auto skipped = static_cast<std::uint64_t>(static_cast<char*>(call.workspace) - static_cast<char*>(array.tensor.data));
  const auto size = static_cast<std::uint64_t>(elements);
  call.workspace_bytes = size > skipped ? size - skipped : 0;
  if (call.workspace_bytes >= needed || optional) return true;
  PyErr_Format(PyExc_ValueError, "argument workspace: it has %llu bytes; legal is at least %llu for this call",
               static_cast<unsigned long long>(size), static_cast<unsigned long long>(with_alignment));
  return false;
}

PyObject* run(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != kArguments) {
    PyErr_Format(PyExc_TypeError, "run() takes %zd arguments, %zd were given", kArguments, count);
    return nullptr;
  }
  State& state = state_of(self);
  std::array<TensorArgument, kTensors> tensors;
  std::array<const kw_tensor*, kTensors> given{};
  for (std::size_t i = 0; i < kTensors; ++i) {
    if (arguments[i] == Py_None && is_optional(i)) continue;
    if (!tensors[i].read(arguments[i], kNames[i], state.types, arguments[kStream])) return nullptr;
    if (tensors[i].device != tensors[kQ].device) {
      PyErr_Format(PyExc_ValueError, "argument %s: it is on device %d, and q on device %d (-1: the host)", kNames[i], tensors[i].device,
                   tensors[kQ].device);
      return nullptr;
    }
    given[i] = &tensors[i].tensor;
  }
  const TensorArgument& q = tensors[kQ];
  if (!tensors[kKv].drop_middle() || !tensors[kIndices].drop_middle()) return nullptr;
  if (q.tensor.rank != 3) {
    PyErr_Format(PyExc_ValueError, "argument q: it has %d dimensions; legal is [tokens, heads, d_qk]", static_cast<int>(q.tensor.rank));
    return nullptr;
  }
  if (tensors[kIndices].tensor.rank != 2 || tensors[kKv].tensor.rank != 2) {
    const bool kv = tensors[kKv].tensor.rank != 2;
    PyErr_Format(PyExc_ValueError, "argument %s: it has %d dimensions; legal is %s", kv ? "kv" : "indices",
                 static_cast<int>(kv ? tensors[kKv].tensor.rank : tensors[kIndices].tensor.rank),
                 kv ? "[kv_rows, d_qk] or [kv_rows, 1, d_qk]" : "[tokens, topk] or [tokens, 1, topk]");
    return nullptr;
  }
  constexpr long kColumns = 512;
  const long columns = PyLong_AsLong(arguments[kValueColumns]);
  if (columns != kColumns) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "argument d_v: it is %R; legal is 512", arguments[kValueColumns]);
    return nullptr;
  }
  OpKey key;
  key.device = q.device;
  constexpr std::int64_t kTooLarge = 1 << 20;  // refused by the op with the legal values
  key.heads = static_cast<std::int32_t>(q.tensor.shape[1] < kTooLarge ? q.tensor.shape[1] : kTooLarge);
  key.d_qk = static_cast<std::int32_t>(q.tensor.shape[2] < kTooLarge ? q.tensor.shape[2] : kTooLarge);
  key.max_topk = rounded_topk(tensors[kIndices].tensor.shape[1]);
  if (!read_union(arguments[kUnion], key.group_size)) return nullptr;
  key.deterministic = PyObject_IsTrue(arguments[kDeterministic]);
  if (key.deterministic < 0) return nullptr;

  kw_sparse_mla_prefill_arguments call;
  kw_init(&call);
  const double scale = PyFloat_AsDouble(arguments[kScale]);
  if (scale == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "argument sm_scale: it is %R; legal is a number", arguments[kScale]);
    return nullptr;
  }
  call.sm_scale = static_cast<float>(scale);
  void* stream = nullptr;
  if (!read_stream(arguments[kStream], q, stream)) return nullptr;

  const Op* const op = find_op(state, key);
  if (op == nullptr) return nullptr;
  kw_sparse_mla_prefill* const handle = op->handle;
  const Reference keeps_op = Reference::share(op->owner.get());  // whatever other threads do while this one has let go of the interpreter
  std::uint64_t needed = 0;
  std::int32_t group_size = KW_UNION_OFF;
  kw_status asked = kw_sparse_mla_prefill_workspace_bytes(handle, q.tensor.shape[0], tensors[kKv].tensor.shape[0], &needed);
  if (asked == KW_OK && needed > 0) asked = kw_sparse_mla_prefill_union(handle, &group_size, nullptr);
  if (asked != KW_OK) return raise_status(state, asked);
  TensorArgument workspace;
  Reference scratch;
  if (!read_workspace(state, arguments[kWorkspace], arguments[kQ], q, needed, group_size == KW_UNION_OFF, arguments[kStream], workspace,
                      scratch, call))
    return nullptr;
  call.q = given[kQ];
  call.kv = given[kKv];
  call.indices = given[kIndices];
  call.topk_length = given[kTopkLength];
  call.attn_sink = given[kAttnSink];
  call.out = given[kOut];
  call.max_logits = given[kMaxLogits];
  call.lse = given[kLse];
  // Without the interpreter's lock: a launch that is refused for resources prepares the next tile, which may wait for a thread that logs to
  // Python; and on host the call computes.
  PyThreadState* const thread = PyEval_SaveThread();
  const kw_status status = kw_sparse_mla_prefill_run(handle, &call, stream);
  PyEval_RestoreThread(thread);
  if (status != KW_OK) return raise_status(state, status);
  Py_INCREF(Py_None);
  return Py_None;
}

/// Lets go of every op, as a forked child must, without destroying: the parent's locks may be held here by threads that are not.
PyObject* abandon(PyObject* self, PyObject* /*unused*/) {
  for (Op& op : state_of(self).ops) (void)op.owner.release();
  state_of(self).ops.clear();
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* construct(PyTypeObject* type, PyObject* arguments, PyObject* words) {
  PyObject *make_op = nullptr, *make_scratch = nullptr, *error_of = nullptr;
  if (words != nullptr && PyDict_Size(words) > 0) {
    PyErr_SetString(PyExc_TypeError, "PrefillCalls() takes no keyword arguments");
    return nullptr;
  }
  if (PyArg_ParseTuple(arguments, "OOO", &make_op, &make_scratch, &error_of) == 0) return nullptr;
  auto* const allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* const self = allocate(type, 0);
  if (self == nullptr) return nullptr;
  auto* const state = new (std::nothrow) State;
  if (state == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  state->make_op = Reference::share(make_op);
  state->make_scratch = Reference::share(make_scratch);
  state->error_of = Reference::share(error_of);
  reinterpret_cast<PrefillCalls*>(self)->state = state;
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const State* const state = reinterpret_cast<PrefillCalls*>(self)->state;
  if (state == nullptr) return 0;
  Py_VISIT(state->make_op.get());
  Py_VISIT(state->make_scratch.get());
  Py_VISIT(state->error_of.get());
  for (const Op& op : state->ops) Py_VISIT(op.owner.get());
  return 0;
}

int clear(PyObject* self) {
  State* const state = reinterpret_cast<PrefillCalls*>(self)->state;
  if (state == nullptr) return 0;
  std::vector<Op> ops = std::move(state->ops);
  state->ops.clear();
  const Reference make_op = std::move(state->make_op);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* const type = Py_TYPE(self);
  delete std::exchange(reinterpret_cast<PrefillCalls*>(self)->state, nullptr);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

}  // namespace

PyObject* make_prefill_calls_type(PyObject* module) {
  static PyMethodDef methods[] = {
      {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run)), METH_FASTCALL,
       "run(q, kv, indices, topk_length, attn_sink, out, max_logits, lse, workspace, sm_scale, d_v, union, deterministic, stream)"},
      {"abandon", abandon, METH_NOARGS, "Forgets every op without destroying it: for a forked child."},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec{"kernwright._native.PrefillCalls", sizeof(PrefillCalls), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace kernwright::python
