"""Builds the wheel: CMake builds library, program and extension module, and this file packs them.

KERNWRIGHT_BUILD_FOLDER names a CMake build folder to take them from; otherwise build/wheel of the source tree is used.
KERNWRIGHT_CMAKE_ARGUMENTS is passed on when that is configured.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent


GIVEN = os.environ.get("KERNWRIGHT_BUILD_FOLDER")
FOLDER = pathlib.Path(GIVEN).resolve() if GIVEN else ROOT / "build" / "wheel"
# What setuptools writes on its way stays out of the source tree.
SCRATCH = FOLDER / "python" / "setuptools"
SCRATCH.mkdir(parents=True, exist_ok=True)


def built_package() -> pathlib.Path:
    if not GIVEN:
        off = [f"-DKERNWRIGHT_{part}=OFF" for part in ("TESTS", "EXAMPLES", "BENCHMARKS")]
        configure = ["cmake", "-S", str(ROOT), "-B", str(FOLDER), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *off,
                     "-DKERNWRIGHT_PYTHON=ON", f"-DKERNWRIGHT_PYTHON3={sys.executable}"]
        subprocess.check_call(configure + shlex.split(os.environ.get("KERNWRIGHT_CMAKE_ARGUMENTS", "")))
    subprocess.check_call(["cmake", "--build", str(FOLDER), "--target", "kernwright_python_package"])
    return FOLDER / "python" / "kernwright"


class FromCMake(build_ext):
    """Copies what CMake built; setuptools compiles nothing."""

    def run(self) -> None:
        source = built_package()
        target = pathlib.Path(self.build_lib) / "kernwright"
        for name in ("_native.abi3.so", "_native.pyi", "py.typed"):
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
        for folder in ("lib", "bin"):
            shutil.copytree(source / folder, target / folder, dirs_exist_ok=True)

    def get_outputs(self) -> list[str]:
        return []


class AbiWheel(bdist_wheel):
    """One wheel for every Python from 3.10 on, on this platform."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp310"
        super().finalize_options()


setup(
    ext_modules=[Extension("kernwright._native", sources=[], py_limited_api=True)],
    options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}},
    cmdclass={"build_ext": FromCMake, "bdist_wheel": AbiWheel},
)
