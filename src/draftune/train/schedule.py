"""The learning rate over a stage: a linear warm-up, then half a cosine."""

from __future__ import annotations

import math


def factor(progress: float, *, warmup: float, final: float) -> float:
    """The share of the peak learning rate at `progress` 0..1 of a stage: 1 after the warm-up, `final` at the end."""
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return progress / warmup
    done = (progress - warmup) / (1 - warmup) if warmup < 1 else 1.0
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done))
