// The part of DLPack's binary interface (version 1) that is read here: tensors, and the functions that a type hands out so that its objects
// are read without a call into Python. Layouts only; every field is the standard's.
#pragma once

#include <cstdint>

namespace kernwright::python::dlpack {

constexpr std::uint32_t kMajor = 1;

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4 };

struct Device {
  std::int32_t type;
  std::int32_t id;
};
struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< Null: row-major without gaps.
  std::uint64_t byte_offset;
};
struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
/// What a capsule named "dltensor" holds.
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

/// What a type's __dlpack_c_exchange_api__ (a capsule named "dlpack_exchange_api") holds. Functions answer 0, or −1 with Python's error
/// set.
struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;  ///< Of an older major version, or null.
};
struct Exchange {
  ExchangeHeader header;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, Tensor* out);  ///< May be null. The tensor is borrowed from the object.
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};

}  // namespace kernwright::python::dlpack
