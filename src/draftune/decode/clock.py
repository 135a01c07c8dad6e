"""Seconds by phase of decoding."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Adds up the time of "prefill", "draft" and "verify"; what a run took beyond them is "other".

    On a GPU phases are told by events of the device, which nothing has to wait for until the seconds are asked for.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._booked: dict[str, float] = {"prefill": 0.0, "draft": 0.0, "verify": 0.0}
        self._whole_s = 0.0
        self._open: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase so far. On a GPU this waits for what it was asked to do."""
        if self._open:
            torch.cuda.synchronize()
            for name, start, end in self._open:
                self._booked[name] += start.elapsed_time(end) / 1000
            self._open.clear()
        return self._booked | {"other": max(0.0, self._whole_s - sum(self._booked.values()))}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book the time of the block under `name`."""
        if self._on_gpu:
            start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start_event.record()
            yield
            end_event.record()
            self._open.append((name, start_event, end_event))
            return
        start = time.perf_counter()
        yield
        self._booked[name] += time.perf_counter() - start

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Wall time around some phases; what they do not cover of it is "other"."""
        start = time.perf_counter()
        yield
        self._whole_s += time.perf_counter() - start

    @property
    def decode_s(self) -> float:
        """Seconds without the prefill."""
        seconds = self.seconds
        return sum(seconds.values()) - seconds["prefill"]

    @property
    def total_s(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())
