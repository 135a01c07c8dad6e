"""Seconds by phase of decoding."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Adds up wall time of "prefill", "draft" and "verify"; what a run took beyond them is "other".

    On a GPU each phase waits for the device, so that work is booked where it was asked for.
    """

    def __init__(self, device: torch.device) -> None:
        self._wait = torch.cuda.synchronize if device.type == "cuda" else _no_wait
        self.seconds: dict[str, float] = {"prefill": 0.0, "draft": 0.0, "verify": 0.0, "other": 0.0}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book the time of the block under `name`."""
        start = time.perf_counter()
        yield
        self._wait()
        self.seconds[name] += time.perf_counter() - start

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Book under "other" what the phases inside the block do not cover."""
        start, before = time.perf_counter(), sum(self.seconds.values())
        yield
        self._wait()
        elapsed = time.perf_counter() - start
        self.seconds["other"] += elapsed - (sum(self.seconds.values()) - before)

    @property
    def decode_s(self) -> float:
        """Seconds without the prefill."""
        return sum(self.seconds.values()) - self.seconds["prefill"]

    @property
    def total_s(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())


def _no_wait() -> None: ...
