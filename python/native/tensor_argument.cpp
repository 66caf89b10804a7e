#include "tensor_argument.hpp"

#include <cstring>
#include <string>

namespace kernwright::python {
namespace {

constexpr const char* kCapsule = "dltensor";

std::string dtype_text(const dlpack::DataType& type) {
  const char* const kind = type.code == dlpack::kInt      ? "int"
                           : type.code == dlpack::kUInt   ? "uint"
                           : type.code == dlpack::kFloat  ? "float"
                           : type.code == dlpack::kBfloat ? "bfloat"
                                                          : nullptr;
  const std::string bits = std::to_string(type.bits);
  return kind == nullptr ? "DLPack code " + std::to_string(type.code) + " of " + bits + " bits" : kind + bits;
}

/// 0 where no kernel reads such elements.
kw_dtype dtype_of(const dlpack::DataType& type, bool on_host) {
  if (type.lanes != 1) return 0;
  if (type.code == dlpack::kBfloat && type.bits == 16) return KW_BF16;
  if (type.code == dlpack::kUInt && type.bits == 16 && on_host) return KW_BF16;  // numpy has no bfloat16: its bits
  if (type.code == dlpack::kFloat && type.bits == 16) return KW_F16;
  if (type.code == dlpack::kFloat && type.bits == 32) return KW_F32;
  if (type.code == dlpack::kInt && type.bits == 32) return KW_I32;
  if (type.code == dlpack::kInt && type.bits == 64) return KW_I64;
  if (type.code == dlpack::kUInt && type.bits == 8) return KW_U8;
  return 0;
}

bool convert(const dlpack::Tensor& from, Wanted wanted, TensorArgument& to) {
  switch (from.device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost: to.device = KW_HOST; break;
    case dlpack::kCuda:
    case dlpack::kCudaManaged: to.device = from.device.id; break;
    default:
      PyErr_Format(PyExc_ValueError, "argument %s: it is on a device of DLPack type %d; legal is a CUDA device or the CPU", to.name,
                   static_cast<int>(from.device.type));
      return false;
  }
  to.tensor.data = from.data == nullptr ? nullptr : static_cast<char*>(from.data) + from.byte_offset;
  if (wanted == Wanted::memory) return true;
  if (from.rank < 0 || from.rank > 4) {
    PyErr_Format(PyExc_ValueError, "argument %s: it has %d dimensions; legal is at most 4", to.name, static_cast<int>(from.rank));
    return false;
  }
  const kw_dtype dtype = dtype_of(from.dtype, to.device == KW_HOST);
  if (dtype == 0) {
    PyErr_Format(PyExc_ValueError, "argument %s: the dtype is %s; legal are bfloat16, float16, float32, int32, int64 and uint8", to.name,
                 dtype_text(from.dtype).c_str());
    return false;
  }
  kw_tensor& tensor = to.tensor;
  tensor.size = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.rank = from.rank;
  std::int64_t row_major = 1;
  for (std::int32_t d = from.rank - 1; d >= 0; --d) {
    tensor.shape[d] = from.shape[d];
    tensor.stride[d] = from.strides == nullptr ? row_major : from.strides[d];
    row_major *= from.shape[d];
  }
  return true;
}

/// Python's error as the cause of a ValueError that names the argument.
void name_error(const char* name) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Reference text = Reference::take(value == nullptr ? nullptr : PyObject_Str(value));
  PyErr_Format(PyExc_ValueError, "argument %s: it cannot be passed on: %S", name, text ? text.get() : Py_None);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

bool is_exception_of(PyObject* exception) {
  return PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(exception) != 0;
}

/// The capsule of object.__dlpack__(), asked for on `stream` (None: the default) where the object is on a CUDA device.
Reference export_capsule(PyObject* object, PyObject* stream) {
  const Reference where = Reference::take(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
  if (!where) return {};
  const Reference kind = Reference::take(PySequence_GetItem(where.get(), 0));
  const long type = kind ? PyLong_AsLong(kind.get()) : -1;
  if (type == -1 && PyErr_Occurred() != nullptr) return {};
  const Reference method = Reference::take(PyObject_GetAttrString(object, "__dlpack__"));
  const Reference nothing = Reference::take(PyTuple_New(0));
  const Reference words = Reference::take(PyDict_New());
  if (!method || !nothing || !words) return {};
  if (type == dlpack::kCuda || type == dlpack::kCudaManaged) {
    // The standard's numbers: 1 is the legacy default stream, which is 0 as a handle.
    Reference number = Reference::share(stream);
    const bool legacy = stream == Py_None || PyObject_IsTrue(stream) == 0;
    if (legacy) number = Reference::take(PyLong_FromLong(1));
    if (!number || PyDict_SetItemString(words.get(), "stream", number.get()) != 0) return {};
  }
  return Reference::take(PyObject_Call(method.get(), nothing.get(), words.get()));
}

}  // namespace

const dlpack::Exchange* ExchangeTypes::find(PyObject* object) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  for (const Known& known : known_) {
    if (known.type.get() == type) return known.exchange;
  }
  constexpr std::size_t kMost = 32;  // a program that makes types without end does not fill memory here
  if (known_.size() >= kMost) known_.clear();
  const dlpack::Exchange* exchange = nullptr;
  const Reference capsule = Reference::take(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  if (capsule) {
    exchange = static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
    while (exchange != nullptr && exchange->header.version.major != dlpack::kMajor) {
      exchange = reinterpret_cast<const dlpack::Exchange*>(exchange->header.previous);
    }
    if (exchange != nullptr && exchange->tensor_from_object == nullptr) exchange = nullptr;
  }
  PyErr_Clear();  // no such attribute, or another capsule: the long way is open to both
  known_.push_back({Reference::share(type), exchange});
  return exchange;
}

bool TensorArgument::read(PyObject* object, const char* argument, ExchangeTypes& types, PyObject* stream, Wanted wanted) {
  name = argument;
  exchange = types.find(object);
  if (exchange != nullptr) {
    dlpack::Tensor borrowed;
    if (exchange->tensor_from_object(object, &borrowed) != 0) {
      name_error(argument);
      return false;
    }
    return convert(borrowed, wanted, *this);
  }
  capsule = export_capsule(object, stream);
  if (!capsule) {
    if (is_exception_of(PyExc_AttributeError)) {
      PyErr_Clear();
      const Reference type = Reference::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
      PyErr_Format(PyExc_TypeError, "argument %s: a %S; legal is a torch tensor or another array with __dlpack__()", argument,
                   type ? type.get() : Py_None);
    } else {
      name_error(argument);
    }
    return false;
  }
  const auto* managed = static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule.get(), kCapsule));
  if (managed == nullptr) {
    name_error(argument);
    return false;
  }
  return convert(managed->tensor, wanted, *this);  // the capsule is not renamed, so it frees what it holds when it goes
}

bool TensorArgument::drop_middle() {
  if (tensor.rank != 3) return true;
  if (tensor.shape[1] != 1) {
    PyErr_Format(PyExc_ValueError, "argument %s: the shape is [%lld, %lld, %lld]; legal is [%lld, %lld] or [%lld, 1, %lld]", name,
                 static_cast<long long>(tensor.shape[0]), static_cast<long long>(tensor.shape[1]), static_cast<long long>(tensor.shape[2]),
                 static_cast<long long>(tensor.shape[0]), static_cast<long long>(tensor.shape[2]), static_cast<long long>(tensor.shape[0]),
                 static_cast<long long>(tensor.shape[2]));
    return false;
  }
  tensor.shape[1] = tensor.shape[2];
  tensor.stride[1] = tensor.stride[2];
  tensor.rank = 2;
  return true;
}

}  // namespace kernwright::python
