"""A function of tensors replayed as one CUDA graph: many small kernels launched at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM_UPS = 3  # calls before a capture, as torch asks for: libraries set themselves up in them

Function = Callable[..., Sequence[Tensor]]


class Replay:
    """The function, for arguments of the shapes it is first called with.

    A graph reads and writes always the same addresses: arguments are copied into buffers, results out of them. With
    `capture` off the same is done without a graph, so that it can be tested where there is no GPU. The function may be
    called several times for one answer; what it reads beside its arguments must stay where it is.
    """

    def __init__(self, function: Function, *, capture: bool, pool: object = None) -> None:
        self._function, self._capture, self._pool = function, capture, pool
        self._buffers: list[Tensor] = []
        self._run: Callable[[], Sequence[Tensor]] | None = None

    def __call__(self, *given: Tensor) -> list[Tensor]:
        if self._run is None:
            buffers = self._buffers = [one.clone(memory_format=torch.contiguous_format) for one in given]
            plain = lambda: self._function(*buffers)  # noqa: E731
            self._run = _captured(plain, self._pool) if self._capture else plain
        for buffer, one in zip(self._buffers, given, strict=True):
            buffer.copy_(one, non_blocking=True)
        return [one.clone() for one in self._run()]  # the next replay writes where these lie


def _captured(function: Callable[[], Sequence[Tensor]], pool: object) -> Callable[[], Sequence[Tensor]]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):  # type: ignore[arg-type]
        results = function()

    def replay() -> Sequence[Tensor]:
        graph.replay()
        return results

    return replay
