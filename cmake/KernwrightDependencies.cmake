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

# hiredis and libsodium, which only the remote cache needs.
set(KERNWRIGHT_REMOTE_ENABLED FALSE)
if(NOT KERNWRIGHT_REMOTE STREQUAL "AUTO" AND NOT KERNWRIGHT_REMOTE MATCHES "^(ON|OFF|TRUE|FALSE|YES|NO|1|0)$")
  message(FATAL_ERROR "KERNWRIGHT_REMOTE is '${KERNWRIGHT_REMOTE}'; legal are AUTO, ON and OFF.")
endif()
if(KERNWRIGHT_REMOTE AND NOT KERNWRIGHT_REMOTE STREQUAL "AUTO")
  set(KERNWRIGHT_REMOTE_ENABLED TRUE)
endif()
if(KERNWRIGHT_REMOTE_ENABLED OR KERNWRIGHT_REMOTE STREQUAL "AUTO")
  include(KernwrightRemoteLibraries)
  list(JOIN KernwrightRemote_MISSING ", " missing)
  if(KernwrightRemote_FOUND)
    set(KERNWRIGHT_REMOTE_ENABLED TRUE)
  elseif(KERNWRIGHT_REMOTE_ENABLED)
    message(FATAL_ERROR "KERNWRIGHT_REMOTE is ON, but there is no ${missing}. Install libhiredis-dev and libsodium-dev, or set it OFF.")
  endif()
endif()
if(KERNWRIGHT_REMOTE_ENABLED)
  message(STATUS "Remote cache: on")
elseif(KERNWRIGHT_REMOTE STREQUAL "AUTO")
  message(STATUS "Remote cache: off, for lack of ${missing} (Debian: libhiredis-dev, libsodium-dev)")
else()
  message(STATUS "Remote cache: off, as KERNWRIGHT_REMOTE says")
endif()

# cuda.h and nvrtc.h, at build time only: neither library is ever linked. A toolkit, or the folder that tools/ fill from PyPI
# (tools/lib/setup.sh looks in the same places). An older toolkit among them is passed over, since only 13 is tested.
set(KERNWRIGHT_CUDA_MINIMUM 13000)
function(kernwright_cuda_header_is_recent result_variable folder)
  file(STRINGS "${folder}/cuda.h" line REGEX "^#define CUDA_VERSION [0-9]+" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+" version "${line}")
  if(NOT version OR version LESS KERNWRIGHT_CUDA_MINIMUM)
    set(${result_variable} FALSE PARENT_SCOPE)
  endif()
endfunction()
if(KERNWRIGHT_CUDA_INCLUDE AND NOT EXISTS "${KERNWRIGHT_CUDA_INCLUDE}/cuda.h")
  unset(KERNWRIGHT_CUDA_INCLUDE CACHE)  # found by an earlier configure, gone since
  unset(KERNWRIGHT_NVRTC_INCLUDE CACHE)
endif()
find_path(KERNWRIGHT_CUDA_INCLUDE cuda.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda "${PROJECT_SOURCE_DIR}/build/toolkit/nvidia/cu13"
  PATH_SUFFIXES include
  VALIDATOR kernwright_cuda_header_is_recent)
find_path(KERNWRIGHT_NVRTC_INCLUDE nvrtc.h PATHS "${KERNWRIGHT_CUDA_INCLUDE}" NO_DEFAULT_PATH)  # a toolkit has both in one folder
mark_as_advanced(KERNWRIGHT_CUDA_INCLUDE KERNWRIGHT_NVRTC_INCLUDE)
if(NOT KERNWRIGHT_CUDA_INCLUDE OR NOT KERNWRIGHT_NVRTC_INCLUDE)
  message(FATAL_ERROR
    "No cuda.h and nvrtc.h of CUDA 13 or later in CUDA_HOME, CUDA_PATH, /usr/local/cuda, build/toolkit or the system's include folders. "
    "tools/test fetches them; or set CUDA_HOME to a toolkit, or -DKERNWRIGHT_CUDA_INCLUDE and -DKERNWRIGHT_NVRTC_INCLUDE to the headers' folders.")
endif()

if(KERNWRIGHT_TOOLS OR KERNWRIGHT_TESTS OR KERNWRIGHT_BENCHMARKS)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
endif()
if(KERNWRIGHT_TOOLS OR KERNWRIGHT_TESTS)
  # The archive itself, not CMake's target, which names the shared library: the program must run where that is not installed. Its reader and
  # writer of tar need no other library, but one of their objects names the writers of every format. These are never called, and with
  # --gc-sections the linker drops them before it looks for what they need (libarchive is built with a section a function for this).
  find_path(KERNWRIGHT_LIBARCHIVE_INCLUDE archive.h REQUIRED)
  find_library(KERNWRIGHT_LIBARCHIVE libarchive.a REQUIRED)
  mark_as_advanced(KERNWRIGHT_LIBARCHIVE_INCLUDE KERNWRIGHT_LIBARCHIVE)
  add_library(kernwright_libarchive INTERFACE)
  target_include_directories(kernwright_libarchive SYSTEM INTERFACE "${KERNWRIGHT_LIBARCHIVE_INCLUDE}")
  target_link_libraries(kernwright_libarchive INTERFACE "${KERNWRIGHT_LIBARCHIVE}")
  target_link_options(kernwright_libarchive INTERFACE LINKER:--gc-sections)
endif()
if(KERNWRIGHT_TESTS)
  find_package(doctest REQUIRED)
endif()

# Python, for the package in python/. The system's own one is asked first: the tests need numpy, pip and wheel, which its packages bring.
set(KERNWRIGHT_PYTHON_ENABLED FALSE)
if(KERNWRIGHT_PYTHON AND KERNWRIGHT_TOOLS AND NOT KERNWRIGHT_SANITIZE)
  find_program(KERNWRIGHT_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(KERNWRIGHT_PYTHON3 python3)
  mark_as_advanced(KERNWRIGHT_PYTHON3)
  if(KERNWRIGHT_PYTHON3)
    set(Python3_EXECUTABLE "${KERNWRIGHT_PYTHON3}")
  endif()
  find_package(Python3 3.10 COMPONENTS Interpreter Development.Module)
  if(Python3_FOUND)
    set(KERNWRIGHT_PYTHON_ENABLED TRUE)
    message(STATUS "Python package: on, built with ${Python3_EXECUTABLE}")
  elseif(NOT KERNWRIGHT_PYTHON STREQUAL "AUTO")
    message(FATAL_ERROR "KERNWRIGHT_PYTHON is ON, but there is no Python 3.10 or later with headers (Debian: python3-dev). Install it, or set it OFF.")
  else()
    message(STATUS "Python package: off, for lack of Python 3.10 with headers (Debian: python3-dev)")
  endif()
endif()
