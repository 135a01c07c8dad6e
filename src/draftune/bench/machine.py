"""The machine and the code that made a figure: what must be known before two figures are compared."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from draftune.bench.record import Machine

PACKAGES = ("draftune", "torch", "transformers", "peft", "accelerate", "numpy")


def describe(device: str = "cpu") -> Machine:
    """This machine; the accelerator is named where `device` is one."""
    import psutil
    import torch

    return Machine(
        cpu=cpu_name(),
        num_cores=num_cores(),
        num_threads=torch.get_num_threads(),
        memory_bytes=psutil.virtual_memory().total,
        gpu=_gpu_name(device),
        system=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        versions={name: _version(name) for name in PACKAGES},
    )


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's model name, as the system tells it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine() or "unknown"


def num_cores() -> int:
    """Cores that this process may use, which a container or an affinity mask can make fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gpu_name(device: str) -> str | None:
    kind = device.partition(":")[0]
    if kind == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return "Apple GPU" if kind == "mps" else None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def process_peak_bytes() -> int:
    """The most memory that this process ever held, weights included; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows keeps it elsewhere
        import psutil

        return int(getattr(psutil.Process().memory_info(), "peak_wset", 0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kilobytes


def now() -> str:
    """The time in UTC, to the second, ISO 8601."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def command_line() -> str:
    """The command that runs, as it can be typed again; the program without its folder."""
    program, *arguments = sys.argv or [""]
    return shlex.join([Path(program).name or "python", *arguments])


def git_id(folder: Path = Path(__file__).parents[1]) -> str | None:
    """The commit of the code in `folder`, "-changed" after it where files differ; None where git does not track it.

    Tracked is asked first: an installed copy may lie inside somebody else's repository.
    """
    if not _git(folder, "ls-files", "."):
        return None
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return None
    return f"{commit}-changed" if _git(folder, "status", "--porcelain", "--untracked-files=no", ".") else commit


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
