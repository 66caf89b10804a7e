// A Python object as a tensor of the C interface.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dlpack.hpp"
#include "kernwright/kernwright.h"
#include "python.hpp"

namespace kernwright::python {

/// The exchange functions of the types seen so far: looking for them costs more than reading a tensor with them.
class ExchangeTypes {
 public:
  /// Null where the type has none (of this major version). With Python's error set only where that is null and PyErr_Occurred().
  const dlpack::Exchange* find(PyObject* object);
  void clear() noexcept { known_.clear(); }

 private:
  struct Known {
    Reference type;
    const dlpack::Exchange* exchange;
  };
  std::vector<Known> known_;
};

/// What is asked of an argument: a tensor that the C interface has a dtype for, or where its memory is, whatever that holds.
enum class Wanted { tensor, memory };

/// One argument, read. Of `tensor` a memory has nothing but `data`. Where it came over a capsule, the object's memory is held until this
/// ends.
struct TensorArgument {
  const char* name = "";
  kw_tensor tensor{};
  kw_device device = KW_HOST;
  const dlpack::Exchange* exchange = nullptr;  ///< Null: it came over __dlpack__().
  Reference capsule;

  /// False with Python's error set: TypeError where it is no tensor, ValueError where it cannot be passed on.
  bool read(PyObject* object, const char* argument, ExchangeTypes& types, PyObject* stream, Wanted wanted = Wanted::tensor);
  /// [n, 1, m] becomes [n, m]; another middle extent is a ValueError.
  bool drop_middle();
};

}  // namespace kernwright::python
