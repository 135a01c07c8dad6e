"""The general runner with static shapes: on a GPU the forwards of decoding are replayed as CUDA graphs.

A forward of a few tokens is some hundred small kernels; launching them one by one takes longer than a GPU needs to run
them. A graph launches all at once, but always for the same shapes and addresses. So what attention sees grows in
steps, the cache stays where it is from request to request, and tokens, slots and positions are copied into the
buffers that the graph reads. Prompts, trees and other wide blocks are read as they come. Where there is no GPU the
same code runs with graphs off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftune.target.blocks import Block
from draftune.target.runner import HuggingFaceRunner

if TYPE_CHECKING:
    from draftune.target.target import Target

BUCKET = 256  # slots by which the view grows: one graph for each size and width
WIDEST = 32  # tokens a row of a block that is replayed
WARM_UPS = 3  # calls before a capture, as torch asks for: libraries set themselves up in them

Reader = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # tokens, slots, positions -> final, taps


class GraphRunner(HuggingFaceRunner):
    """Implements `target.base.Runner`. The model's weights must stay where they are, and its adapter as it is."""

    kind = "graphs"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._capture = self.device.type == "cuda"
        self._made_for: tuple[int, tuple[int, ...]] | None = None  # rows and taps
        self._graphs: dict[tuple[torch.Size, int], Reader] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._capture else None

    def _make_room(self, num_rows: int, capacity: int) -> None:
        """The cache of the request before serves again where it is large enough: what lies in it is not counted."""
        wanted, room = (num_rows, self._taps), _in_steps(capacity + WIDEST)
        if wanted == self._made_for and room <= self._cache.capacity:
            return
        self._graphs.clear()
        super()._make_room(num_rows, room)
        self._made_for = wanted

    def _read(self, block: Block) -> tuple[Tensor, Tensor]:
        view = _in_steps(block.view)
        if block.tokens.shape[1] > WIDEST or block.depths is not None or view > self._cache.capacity:
            if block.view > self._cache.capacity:
                self._graphs.clear()  # the buffers are about to move
            return super()._read(block)
        key = (block.tokens.shape, view)
        if key not in self._graphs:
            self._graphs[key] = self._made(block, view)
        return self._graphs[key](block.tokens, block.slots, block.positions)

    def _made(self, block: Block, view: int) -> Reader:
        buffers = [one.clone().contiguous() for one in (block.tokens, block.slots, block.positions)]
        fixed = Block(tokens=buffers[0], slots=buffers[1], positions=buffers[2], view=view)
        read = super()._read
        run = (lambda: read(fixed)) if not self._capture else _captured(lambda: read(fixed), self._pool)

        def replay(*given: Tensor) -> tuple[Tensor, Tensor]:
            for buffer, one in zip(buffers, given, strict=True):
                buffer.copy_(one, non_blocking=True)
            final_BMD, taps_BMLD = run()
            return final_BMD.clone(), taps_BMLD.clone()  # the next replay writes where these lie

        return replay


def _captured(function: Callable[[], tuple[Tensor, Tensor]], pool: object) -> Callable[[], tuple[Tensor, Tensor]]:
    """The function as a CUDA graph. A block that is read twice writes the same, so warming up is safe."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):  # type: ignore[arg-type]
        results = function()

    def replay() -> tuple[Tensor, Tensor]:
        graph.replay()
        return results

    return replay


def _in_steps(slots: int) -> int:
    return -(-slots // BUCKET) * BUCKET
