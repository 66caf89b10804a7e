// The type kernwright._native.PrefillCalls: sparse MLA prefill's way from Python objects to a launch.
#pragma once

#include "python.hpp"

namespace kernwright::python {

/// A new type object for the module, or null with Python's error set.
PyObject* make_prefill_calls_type(PyObject* module);

}  // namespace kernwright::python
