# Every package that the build stands on. Reasons are in docs/decisions.md.
find_package(Threads REQUIRED)
find_package(tl-expected REQUIRED)
find_package(fmt REQUIRED)
# Not its CMake target: Debian's names a shared library and turns the header-only form off.
find_path(KERNWRIGHT_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
mark_as_advanced(KERNWRIGHT_TOMLPLUSPLUS_INCLUDE)
find_package(zstd REQUIRED)
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost REQUIRED COMPONENTS context)
find_path(KERNWRIGHT_XXHASH_INCLUDE xxhash.h REQUIRED)
mark_as_advanced(KERNWRIGHT_XXHASH_INCLUDE)

# cuda.h and nvrtc.h, at build time only: neither library is ever linked. A toolkit, or the folder that tools/ fill from PyPI.
find_path(KERNWRIGHT_CUDA_INCLUDE cuda.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS "${PROJECT_BINARY_DIR}/../toolkit/nvidia/cu13" /usr/local/cuda /usr
  PATH_SUFFIXES include REQUIRED)
find_path(KERNWRIGHT_NVRTC_INCLUDE nvrtc.h
  HINTS "${KERNWRIGHT_CUDA_INCLUDE}" REQUIRED)
mark_as_advanced(KERNWRIGHT_CUDA_INCLUDE KERNWRIGHT_NVRTC_INCLUDE)

if(KERNWRIGHT_TOOLS OR KERNWRIGHT_TESTS OR KERNWRIGHT_BENCHMARKS)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
endif()
if(KERNWRIGHT_TESTS)
  find_package(doctest REQUIRED)
endif()
