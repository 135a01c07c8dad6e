"""Random numbers that are a pure function of their key, so that text does not depend on who else draws.

A key is (seed, sample index) mixed to 64 bits; to it come a purpose, an index and a vocabulary id.
The mixer is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

GUMBEL, DRAFT, ACCEPT, FINAL = 1, 2, 3, 4  # purposes: numbers drawn for one never meet those of another

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def place(device: torch.device | str) -> torch.device:
    """Where noise for tokens on `device` is made: there, or on the CPU where the device has no float64."""
    device = torch.device(device)
    return torch.device("cpu") if device.type == "mps" else device


def key(seed: int, sample: int) -> int:
    """The 64-bit key of one request, as a signed integer."""
    return _signed(_mix_int(_mix_int(seed & _MASK) + _GOLDEN * (sample + 1)))


def keys(pairs: Sequence[tuple[int, int]], device: torch.device | str = "cpu") -> Tensor:
    """[B] int64 keys of (seed, sample) pairs."""
    return torch.tensor([key(seed, sample) for seed, sample in pairs], dtype=torch.int64, device=device)


def uniform(key_B: Tensor, purpose: int, index_BM: Tensor, ids_V: Tensor | None = None) -> Tensor:
    """Numbers strictly between 0 and 1, float64: [B,M], or [B,M,V] with one for each id."""
    bits = _mix(_mix(key_B + _signed(_GOLDEN * purpose & _MASK))[:, None] + index_BM)
    if ids_V is not None:
        bits = _mix(bits[..., None] + ids_V * _signed(_GOLDEN))
    fraction = (bits >> 12) & ((1 << 52) - 1)  # 52 bits, logical shift
    return (fraction.to(torch.float64) + 0.5) * 2.0**-52


def gumbel(key_B: Tensor, index_BM: Tensor, ids_V: Tensor) -> Tensor:
    """[B,M,V] standard Gumbel noise of emitted index and full-vocabulary id, float64."""
    return -torch.log(-torch.log(uniform(key_B, GUMBEL, index_BM, ids_V)))


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift(x, 30)) * _signed(_FIRST)
    x = (x ^ _shift(x, 27)) * _signed(_SECOND)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical shift to the right; int64 >> repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix_int(x: int) -> int:
    x &= _MASK
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >= 1 << 63 else x
