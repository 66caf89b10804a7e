// Python's limited interface (3.10), and a reference that lets go by itself.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <utility>

namespace kernwright::python {

/// Owns one reference. Used under the interpreter's lock only.
class Reference {
 public:
  Reference() = default;
  static Reference take(PyObject* object) noexcept { return Reference(object); }
  static Reference share(PyObject* object) noexcept {
    Py_XINCREF(object);
    return Reference(object);
  }
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    if (this != &other) {
      PyObject* const old = std::exchange(object_, std::exchange(other.object_, nullptr));
      Py_XDECREF(old);
    }
    return *this;
  }
  ~Reference() { Py_XDECREF(object_); }

  [[nodiscard]] PyObject* get() const noexcept { return object_; }
  [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  explicit Reference(PyObject* object) noexcept : object_(object) {}
  PyObject* object_ = nullptr;
};

}  // namespace kernwright::python
