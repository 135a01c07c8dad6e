"""Which device, and which precision it computes natively."""

from __future__ import annotations

from pathlib import Path

import torch

from draftune import errors

PRECISIONS = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def choose(name: str = "auto") -> torch.device:
    """The device called `name`; "auto" is the first of cuda, mps and cpu that is there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise errors.ConfigError(
            doing=f"choosing the device {name!r}",
            met=str(error).strip().splitlines()[0].rstrip("."),
            todo="choose auto, cpu, cuda, cuda:0 or mps",
        ) from error
    return device


def precision(name: str, device: torch.device) -> torch.dtype:
    """The dtype called `name`; "auto" is bfloat16 where `device` computes it natively, float32 elsewhere."""
    if name == "auto":
        return torch.bfloat16 if computes_bfloat16(device) else torch.float32
    if name not in PRECISIONS:
        raise errors.ConfigError(
            doing=f"choosing the precision {name!r}",
            met="no such dtype",
            todo=errors.nearest(name, ["auto", *PRECISIONS]),
        )
    return PRECISIONS[name]


def computes_bfloat16(device: torch.device) -> bool:
    """Whether products of bfloat16 matrices are native there and not emulated."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and bool({"avx512_bf16", "amx_bf16"} & _cpu_flags())


def _cpu_flags() -> set[str]:
    capabilities = getattr(torch.cpu, "get_capabilities", None)  # since torch 2.10
    if capabilities:
        return {name for name, there in capabilities().items() if there is True}
    table = Path("/proc/cpuinfo")
    text = table.read_text() if table.exists() else ""
    return set(next((line for line in text.splitlines() if line.startswith("flags")), "").split())
