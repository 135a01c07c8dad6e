"""The kernel: compiled once for this machine, kept in the user's cache, loaded by ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from draftune import errors, storage

SOURCE = Path(__file__).with_name("kernel.cpp")  # which includes the headers beside it
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno", "-Wno-psabi")


@cache
def kernel() -> ctypes.CDLL:
    """The compiled kernel. Raises TargetError where there is no compiler, or where it fails."""
    import torch  # noqa: F401  # its OpenMP must be there first: two pools of threads would get in each other's way

    compiler = _compiler()
    path = storage.cache_folder() / f"kernel-{version()}.so"
    if path.exists():
        return _loaded(path)
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / path.name
        _compile(compiler, built)
        try:
            _keep(built, path)
        except errors.StorageError:  # a cache that cannot be written: it is built again next time
            return _loaded(built)
    return _loaded(path)


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        todo = f"remove {path} and try again"
        raise errors.TargetError(doing="loading the compiled kernel", met=str(error), todo=todo) from error


def _keep(built: Path, path: Path) -> None:
    """Put the file into the cache in one move; another process may be doing the same."""
    partial = path.with_name(f"{storage.PARTIAL}{os.getpid()}-{path.name}")
    with storage.reporting("keeping the compiled kernel"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(built, partial)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def _compiler() -> str:
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else COMPILERS
    found = next((path for name in wanted if (path := shutil.which(name))), None)
    if found is None:
        raise errors.TargetError(
            doing="building the CPU kernel",
            met=f"no C++ compiler was found ({', '.join(wanted)})",
            todo="install g++, or name one by CXX",
        )
    return found


@cache
def version() -> str:
    """A hash of all that the compiled file depends on: the sources, the compiler, the CPU.

    Raises TargetError where there is no compiler.
    """
    compiler = _compiler()
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    cpu = platform.processor() or platform.machine()
    table = Path("/proc/cpuinfo")
    if table.exists():
        lines = table.read_text().splitlines()
        cpu = next((line for line in lines if line.startswith(("flags", "Features"))), cpu)
    sources = [path.read_text(encoding="utf-8") for path in (SOURCE, *sorted(SOURCE.parent.glob("*.h")))]
    parts = (*sources, said, cpu, sys.platform, " ".join(FLAGS))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compile(compiler: str, path: Path) -> None:
    done = subprocess.run([compiler, *FLAGS, "-o", str(path), str(SOURCE)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line), f"it left with {done.returncode}")
        raise errors.TargetError(
            doing=f"building the CPU kernel with {compiler}",
            met=first.strip()[:300],
            todo="name another compiler by CXX",
        )
