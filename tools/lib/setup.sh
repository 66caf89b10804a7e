# shellcheck shell=bash
# What tools/demo, tools/test and .ci/run share: packages, toolkit, configure, build. Sourced, never run.
# Exit code 3 means that the machine lacks something; the lines printed before say what to type.

KW_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$KW_ROOT" || exit 1

# The build needs these. ccache and mold only make it faster, so nothing asks for them here.
# shellcheck disable=SC2034  # for the scripts that source this file
KW_BUILD_PACKAGES=(
  g++ cmake ninja-build
  libarchive-dev libboost-context-dev libcli11-dev libexpected-dev libfmt-dev libhiredis-dev libsodium-dev libtomlplusplus-dev
  libxxhash-dev libzstd-dev
  doctest-dev nlohmann-json3-dev
)

# The Python package is built where these are, and its wheel is tested with them.
# shellcheck disable=SC2034  # for the scripts that source this file
KW_PYTHON_PACKAGES=(python3-dev python3-numpy python3-pip python3-setuptools python3-venv python3-wheel)

# The release of CUDA that is tested. The wheels are named after it, and their folder after its major version.
KW_CUDA_MAJOR=13
KW_CUDA_WHEELS=("nvidia-cuda-nvrtc==13.0.*" "nvidia-cuda-runtime==13.0.*")
KW_TOOLKIT="$KW_ROOT/build/toolkit"

kw_say() { printf '%s\n' "$*" >&2; }

# kw_install PACKAGE…: installs those that are missing, or says how and ends. Asks no archive where nothing is missing.
kw_install() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    kw_say "This is not a Debian or Ubuntu system, so nothing was installed. The build needs the counterparts of: $*"
    return 0
  fi
  for package in "$@"; do
    # The status word is asked for, since a removed package keeps an entry.
    if [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      missing+=("$package")
    fi
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      kw_say "Missing packages, and neither root nor sudo without a password to install them. Type:"
      kw_say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
      exit 3
    fi
  fi
  kw_say "Installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  # A stale list often still works, so only the install decides.
  "${apt[@]}" update </dev/null >/dev/null || kw_say "apt-get update failed; trying with the package lists that are here."
  if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null; then
    kw_say "apt-get could not install every package (its words are above). Once it can, type:"
    kw_say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    exit 3
  fi
}

# kw_is_toolkit HEADERS LIBRARIES…: whether the headers are of a tested major version and one of the library folders has NVRTC.
kw_is_toolkit() {
  local headers="$1" version folder
  shift
  [[ -f "$headers/cuda.h" && -f "$headers/nvrtc.h" ]] || return 1
  version="$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$headers/cuda.h")"
  [[ -n "$version" ]] && ((version / 1000 == KW_CUDA_MAJOR)) || return 1
  for folder in "$@"; do
    if compgen -G "$folder/libnvrtc.so.*" >/dev/null && compgen -G "$folder/libnvrtc-builtins.so.*" >/dev/null; then
      return 0
    fi
  done
  return 1
}

# The folder with cuda.h of the toolkit to build against, on stdout. The order is cmake/KernwrightDependencies.cmake's.
kw_find_toolkit() {
  local prefix
  for prefix in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [[ -n "$prefix" ]] || continue
    if kw_is_toolkit "$prefix/include" "$prefix/lib64" "$prefix/lib" "$prefix"/targets/*/lib; then
      printf '%s\n' "$prefix/include"
      return 0
    fi
  done
  prefix="$KW_TOOLKIT/nvidia/cu$KW_CUDA_MAJOR"
  kw_is_toolkit "$prefix/include" "$prefix/lib" || return 1
  printf '%s\n' "$prefix/include"
}

# Makes sure that kw_find_toolkit finds one: without a toolkit NVRTC and the headers come from PyPI into build/toolkit.
kw_need_toolkit() {
  kw_find_toolkit >/dev/null || kw_fetch_toolkit
  # What runs below this script looks for NVRTC among Python's packages after every toolkit.
  if [[ "$(kw_find_toolkit)" == "$KW_TOOLKIT"/* ]]; then
    export PYTHONPATH="$KW_TOOLKIT${PYTHONPATH:+:$PYTHONPATH}"
  fi
}

kw_fetch_toolkit() {
  kw_say "No CUDA $KW_CUDA_MAJOR toolkit in CUDA_HOME, CUDA_PATH or /usr/local/cuda: taking NVRTC and the headers from PyPI (about 60 MB)."
  if ! python3 -m pip --version >/dev/null 2>&1; then
    kw_install python3-pip
  fi
  local partial="$KW_TOOLKIT.partial.$$"
  rm -rf "$KW_TOOLKIT".partial.*
  mkdir -p "$partial"
  if python3 -m pip install --quiet --disable-pip-version-check --no-input --retries 2 --no-deps --only-binary=:all: --root-user-action=ignore \
      --target "$partial" "${KW_CUDA_WHEELS[@]}" </dev/null >&2; then
    rm -rf "$KW_TOOLKIT"
    mv "$partial" "$KW_TOOLKIT"
    kw_find_toolkit >/dev/null && return 0
    kw_say "The wheels came, but hold no NVRTC and headers of CUDA $KW_CUDA_MAJOR under $KW_TOOLKIT/nvidia/cu$KW_CUDA_MAJOR."
  else
    rm -rf "$partial"
    kw_say "pip got no answer, or no such wheels (its words are above)."
  fi
  kw_say "Any one of these lines installs what is missing; then type the same command again:"
  kw_say "  sudo apt-get install -y cuda-nvrtc-dev-13-0 cuda-cudart-dev-13-0     (with NVIDIA's package archive set up)"
  kw_say "  python3 -m pip install --no-deps --target $KW_TOOLKIT ${KW_CUDA_WHEELS[*]@Q}     (add --index-url for a mirror)"
  kw_say "  export CUDA_HOME=FOLDER     (where a toolkit of CUDA $KW_CUDA_MAJOR stands elsewhere)"
  exit 3
}

# How many jobs at once, on stdout: the cores, but no more than the memory holds at 1.5 GiB each.
kw_jobs() {
  local cores available jobs limit
  cores="$(nproc)"
  available="$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo 2>/dev/null || true)"
  if [[ -r /sys/fs/cgroup/memory.max ]] && limit="$(</sys/fs/cgroup/memory.max)" && [[ "$limit" != max ]]; then
    limit=$((limit / 1048576))
    ((limit < ${available:-limit})) && available="$limit"
  fi
  jobs=$((${available:-2048} / 1536))
  ((jobs > cores)) && jobs="$cores"
  ((jobs < 1)) && jobs=1
  printf '%s\n' "$jobs"
}

# kw_build PRESET [cmake --build arguments…]: configures where that is needed, then builds. CMake's own rules see changed lists of files.
kw_build() {
  local preset="$1" folder="$KW_ROOT/build/$1" headers recorded=
  shift
  headers="$(kw_find_toolkit)"
  if [[ -f "$folder/CMakeCache.txt" ]]; then
    recorded="$(sed -n 's/^KERNWRIGHT_CUDA_INCLUDE:PATH=//p' "$folder/CMakeCache.txt")"
  fi
  if [[ ! -f "$folder/build.ninja" || "$recorded" != "$headers" || CMakePresets.json -nt "$folder/build.ninja" ]]; then
    cmake --preset "$preset" -DKERNWRIGHT_CUDA_INCLUDE="$headers" -DKERNWRIGHT_NVRTC_INCLUDE="$headers" >&2
  fi
  cmake --build "$folder" --parallel "$(kw_jobs)" "$@" >&2
}
