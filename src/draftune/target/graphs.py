"""The general runner with static shapes: on a GPU the forwards of decoding are replayed as CUDA graphs.

A forward of a few tokens is some hundred small kernels; launching them one by one takes longer than a GPU needs to run
them. A graph launches all at once, but always for the same shapes and addresses. So what attention sees grows in
steps, the cache stays where it is from request to request, and tokens, slots and positions are copied into the
buffers that the graph reads. Prompts, trees and other wide blocks are read as they come. Where there is no GPU the
same code runs with graphs off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftune.kernels import Replay
from draftune.target.blocks import Block
from draftune.target.runner import HuggingFaceRunner

if TYPE_CHECKING:
    from draftune.target.target import Target

BUCKET = 256  # slots by which the view grows: one graph for each size and width
WIDEST = 32  # tokens a row of a block that is replayed


class GraphRunner(HuggingFaceRunner):
    """Implements `target.base.Runner`. The model's weights must stay where they are, and its adapter as it is."""

    kind = "graphs"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._capture = self.device.type == "cuda"
        self._made_for: tuple[int, tuple[int, ...]] | None = None  # rows and taps
        self._graphs: dict[tuple[torch.Size, int], Replay] = {}
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
            self._graphs[key] = self._made(view)
        final_BMD, taps_BMLD = self._graphs[key](block.tokens, block.slots, block.positions)
        return final_BMD, taps_BMLD

    def _made(self, view: int) -> Replay:
        read = super()._read

        def function(tokens_BM: Tensor, slots_BM: Tensor, positions_BM: Tensor) -> tuple[Tensor, Tensor]:
            # A block that is read twice writes the same, so it may be read several times before a capture.
            return read(Block(tokens=tokens_BM, slots=slots_BM, positions=positions_BM, view=view))

        return Replay(function, capture=self._capture, pool=self._pool)


def _in_steps(slots: int) -> int:
    return -(-slots // BUCKET) * BUCKET
