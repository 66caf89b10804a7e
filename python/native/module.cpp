// The extension module kernwright._native: what is called too often for ctypes. Everything else of the package goes over the C interface.
#include "kernwright/kernwright.h"
#include "prefill_calls.hpp"
#include "python.hpp"
#include "tensor_argument.hpp"

namespace kernwright::python {
namespace {

/// Where an array's memory is, for launches of own kernels.
PyObject* locate(PyObject* /*module*/, PyObject* arguments) {
  PyObject *object = nullptr, *stream = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "OsO", &object, &name, &stream) == 0) return nullptr;
  ExchangeTypes types;
  TensorArgument argument;
  if (!argument.read(object, name, types, stream, Wanted::memory)) return nullptr;
  void* current = nullptr;
  if (argument.device != KW_HOST && argument.exchange != nullptr && argument.exchange->current_stream != nullptr &&
      argument.exchange->current_stream(dlpack::kCuda, argument.device, &current) != 0) {
    return nullptr;
  }
  const Reference data = Reference::take(PyLong_FromVoidPtr(argument.tensor.data));
  const Reference now = Reference::take(PyLong_FromVoidPtr(current));
  if (!data || !now) return nullptr;
  return Py_BuildValue("OiO", data.get(), argument.device, now.get());
}

int fill(PyObject* module) {
  const Reference type = Reference::take(make_prefill_calls_type(module));
  if (!type) return -1;
  return PyModule_AddObjectRef(module, "PrefillCalls", type.get());
}

}  // namespace
}  // namespace kernwright::python

// The name is Python's.
PyMODINIT_FUNC PyInit__native() {  // NOLINT(readability-identifier-naming)
  static PyMethodDef methods[] = {
      {"locate", kernwright::python::locate, METH_VARARGS, "locate(array, name, stream) -> (data, device, current stream)"},
      {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(kernwright::python::fill)}, {0, nullptr}};
  static PyModuleDef definition{PyModuleDef_HEAD_INIT,
                                "kernwright._native",
                                "Calls that are made too often for ctypes.",
                                0,
                                methods,
                                slots,
                                nullptr,
                                nullptr,
                                nullptr};
  return PyModuleDef_Init(&definition);
}
