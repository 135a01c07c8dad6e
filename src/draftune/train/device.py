"""The accelerator of a run: device, precision, trackers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from draftune import errors
from draftune.target import device as devices
from draftune.train.config import Precision, TrainConfig

if TYPE_CHECKING:
    from accelerate import Accelerator


def accelerator(config: TrainConfig, device: torch.device, dtype: torch.dtype, folder: Path) -> Accelerator:
    """An Accelerator for a target that lies on `device` in `dtype`; its trackers write to `folder`."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    trackers = [_tracker(name.strip()) for name in config.trackers.split(",") if name.strip()]
    settings: dict[str, Any] = {
        "cpu": device.type == "cpu",
        "mixed_precision": "bf16" if precision(config.precision, device, dtype) == "bf16" else "no",
        "log_with": trackers or None,
        "project_dir": str(folder),
    }
    try:
        return Accelerator(**settings)
    except ValueError:  # one process holds one state; a second run with other settings needs a fresh one
        AcceleratorState._reset_state(reset_partial_state=True)
        return Accelerator(**settings)


def precision(wanted: Precision, device: torch.device, dtype: torch.dtype) -> str:
    """ "bf16" (autocast) or "fp32" (as the weights are), for a target in `dtype`."""
    if dtype == torch.float64:
        return "fp32"
    if wanted == "auto":
        return "bf16" if devices.computes_bfloat16(device) else "fp32"
    return wanted


def memory_bytes(device: torch.device) -> tuple[int, int]:
    """(free, all) memory of the device."""
    import psutil

    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)
    memory = psutil.virtual_memory()
    if device.type == "mps":
        whole = torch.mps.recommended_max_memory()
        return whole - torch.mps.driver_allocated_memory(), whole
    return memory.available, memory.total


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory this process has held so far, on the device where that is counted."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
        import sys

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    except ImportError:  # Windows
        import psutil

        return psutil.Process().memory_info().peak_wset  # type: ignore[attr-defined]


def start_trackers(accelerator: Accelerator, settings: Mapping[str, Any]) -> None:
    """Open the trackers with the settings that they can show."""
    shown = {name: value for name, value in settings.items() if isinstance(value, bool | int | float | str)}
    accelerator.init_trackers("draftune", config=shown)


def _tracker(name: str) -> str:
    from accelerate.tracking import get_available_trackers
    from accelerate.utils import LoggerType

    doing, known = f"opening the tracker {name!r}", [str(one.value) for one in LoggerType if one.value != "all"]
    if name not in known:
        raise errors.ConfigError(doing=doing, met="no such tracker", todo=errors.nearest(name, known))
    if name not in [str(one.value) for one in get_available_trackers()]:
        raise errors.ConfigError(
            doing=doing, met="its package is not installed", todo=f"install it: pip install {name}"
        )
    return name
