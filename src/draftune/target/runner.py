"""A transformers model that reads blocks of tokens and remembers those that are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from draftune.target import anatomy, masks
from draftune.target.blocks import Block, BlockRunner
from draftune.target.cache import RaggedCache

if TYPE_CHECKING:
    from draftune.target.target import Target


class HuggingFaceRunner(BlockRunner):
    """Implements `target.base.Runner` over any causal LM of transformers, with or without a peft adapter."""

    kind = "general"

    def __init__(self, target: Target) -> None:
        super().__init__(target.shape, target.device)
        self._target = target
        self._attention = anatomy.attention(target.causal.config)
        self._cache_argument = anatomy.cache_argument(target.body)

    def _make_room(self, num_rows: int, capacity: int) -> None:
        self._cache = RaggedCache(self.shape.num_layers, capacity)

    def _read(self, block: Block) -> tuple[Tensor, Tensor]:
        target = self._target
        if target.model.training:
            target.model.eval()
        self._cache.move(block.slots, block.view)
        arguments: dict[str, Any] = {
            "input_ids": block.tokens,
            "position_ids": block.positions,
            "attention_mask": masks.dressed(self._seen(block), self._attention, target.dtype),
            self._cache_argument: self._cache,
            "use_cache": True,
        }
        with anatomy.listen(target.layers, self._taps) as heard:
            final_BMD = target.body(**arguments).last_hidden_state
        return final_BMD, anatomy.stack_taps(final_BMD, heard, self._taps)

    def _seen(self, block: Block) -> dict[str, Tensor]:
        """Bool masks [B,1,M,view] by layer type."""
        windows = self._attention.windows
        if block.depths is None or block.ancestors is None:
            return {name: masks.chain(block.slots, block.view, window) for name, window in windows.items()}
        return {
            name: masks.tree(self.lengths, block.depths, block.ancestors, block.view, window)
            for name, window in windows.items()
        }

    def _logits(self, hidden_BMD: Tensor) -> Tensor:
        return self._target.logits(hidden_BMD)

    def _copy_slots(self, sources_BN: Tensor, targets_BN: Tensor) -> None:
        self._cache.copy_slots(sources_BN, targets_BN)
