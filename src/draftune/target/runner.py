"""A transformers model that reads blocks of tokens and remembers those that are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from draftune import errors
from draftune.target import anatomy, masks
from draftune.target.base import FINAL, Step
from draftune.target.cache import RaggedCache
from draftune.types import Features

if TYPE_CHECKING:
    from draftune.target.target import Target

CHUNK = 1024  # prompt tokens read at once, so that a long prompt's mask stays small


class HuggingFaceRunner:
    """Implements `target.base.Runner` over any causal LM of transformers, with or without a peft adapter."""

    lengths: Tensor

    def __init__(self, target: Target) -> None:
        self.shape, self.device = target.shape, target.device
        self._target = target
        self._attention = anatomy.attention(target.causal.config)
        self._cache_argument = anatomy.cache_argument(target.body)
        self._counted: list[int] = []  # the lengths again, on the host: no device has to be asked
        self._last = 0  # tokens of the last forward; 0 = nothing to commit

    def open(self, num_rows: int, capacity: int, taps: Sequence[int] = (FINAL,)) -> None:
        """Forget everything and make room for `num_rows` rows of at most `capacity` tokens."""
        if num_rows < 1 or not 1 <= capacity <= self.shape.max_length:
            raise errors.ConfigError(
                doing=f"making room for {num_rows} rows of {capacity} tokens",
                met=f"the model takes 1..{self.shape.max_length} tokens",
                todo="shorten the prompt or ask for fewer new tokens",
            )
        self._taps = anatomy.check_taps(taps, self.shape.num_layers)
        self._capacity = capacity
        self._cache = RaggedCache(self.shape.num_layers, capacity)
        self._counted, self._last, self._ids = [0] * num_rows, 0, tuple(map(str, range(num_rows)))
        self.lengths = torch.zeros(num_rows, dtype=torch.int64, device=self.device)

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Sequence[int]], ids: Sequence[str] = ()) -> Step:
        """Read and commit the prompts, one per row, each at least one token long."""
        counts = [len(prompt) for prompt in prompts]
        self._check_prompts(counts, ids)
        self._ids = tuple(ids) or self._ids
        width = max(counts)
        padded = [list(prompt) + [0] * (width - len(prompt)) for prompt in prompts]
        tokens_BT = torch.tensor(padded, dtype=torch.int64, device=self.device)
        hidden = [self._read_chunk(tokens_BT, start) for start in range(0, width, CHUNK)]
        final_BTD, taps_BTLD = (torch.cat(parts, dim=1) for parts in zip(*hidden, strict=True))
        lengths_B = torch.tensor(counts, device=self.device)
        last_B1D = final_BTD[torch.arange(len(counts), device=final_BTD.device), lengths_B - 1][:, None]
        self._counted, self._last = counts, 0
        self._set_lengths(counts)
        return Step(logits=self._target.logits(last_B1D), features=self._features(taps_BTLD))

    @torch.inference_mode()
    def forward(self, tokens_BM: Tensor, depths_M: Tensor | None = None, ancestors_MM: Tensor | None = None) -> Step:
        """Read M tokens a row after the committed ones, committing nothing."""
        num_tokens = tokens_BM.shape[1]
        if tokens_BM.shape[0] != len(self._counted) or num_tokens < 1:
            raise ValueError(f"{tuple(tokens_BM.shape)} tokens for {len(self._counted)} rows")
        tokens_BM = tokens_BM.to(self.device)
        view = max(self._counted) + num_tokens
        slots_BM = self.lengths[:, None] + torch.arange(num_tokens, device=self.device)
        if depths_M is None or ancestors_MM is None:
            positions_BM = slots_BM
            seen = {name: masks.chain(slots_BM, view, window) for name, window in self._attention.windows.items()}
        else:
            depths_M, ancestors_MM = depths_M.to(self.device), ancestors_MM.to(self.device)
            positions_BM = self.lengths[:, None] + depths_M
            seen = {
                name: masks.tree(self.lengths, depths_M, ancestors_MM, view, window)
                for name, window in self._attention.windows.items()
            }
        final_BMD, taps_BMLD = self._read(tokens_BM, slots_BM, positions_BM, view, seen)
        self._last = num_tokens
        return Step(logits=self._target.logits(final_BMD), features=self._features(taps_BMLD))

    def commit(self, num_tokens_B: Tensor, nodes_BN: Tensor | None = None) -> None:
        """Count the first `num_tokens_B` tokens of the last forward's rows (0 leaves a row as it was).

        After a tree, `nodes_BN` names the accepted path of each row from the root down, padded with anything below
        the number of nodes; its first `num_tokens_B` nodes are counted.
        """
        counts = num_tokens_B.tolist()
        lengths = [length + count for length, count in zip(self._counted, counts, strict=True)]
        if min(counts) < 0 or max(counts) > self._last:
            raise ValueError(f"{counts} tokens to commit after a forward of {self._last}")
        if max(lengths) > self._capacity:
            raise _overflow(self._ids[lengths.index(max(lengths))], max(lengths), self._capacity)
        if nodes_BN is not None:
            self._compact(nodes_BN.to(self.device))
        self._counted, self._last = lengths, 0
        self._set_lengths(lengths)

    def _set_lengths(self, lengths: list[int]) -> None:
        with torch.inference_mode(False):
            self.lengths = torch.tensor(lengths, dtype=torch.int64, device=self.device)

    @torch.inference_mode()
    def _compact(self, nodes_BN: Tensor) -> None:
        targets_BN = self.lengths[:, None] + torch.arange(nodes_BN.shape[1], device=self.device)
        self._cache.copy_slots(self.lengths[:, None] + nodes_BN, targets_BN)

    def _read_chunk(self, tokens_BT: Tensor, start: int) -> tuple[Tensor, Tensor]:
        tokens_BM = tokens_BT[:, start : start + CHUNK]
        view = start + tokens_BM.shape[1]
        slots_BM = torch.arange(start, view, device=self.device).expand(tokens_BM.shape)
        seen = {name: masks.chain(slots_BM, view, window) for name, window in self._attention.windows.items()}
        return self._read(tokens_BM, slots_BM, slots_BM, view, seen)

    def _read(
        self, tokens_BM: Tensor, slots_BM: Tensor, positions_BM: Tensor, view: int, seen: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        target = self._target
        if target.model.training:
            target.model.eval()
        self._cache.move(slots_BM, view)
        arguments: dict[str, Any] = {
            "input_ids": tokens_BM,
            # Beyond the last position lie only tokens that can never be committed.
            "position_ids": positions_BM.clamp(max=self.shape.max_length - 1),
            "attention_mask": masks.dressed(seen, self._attention, target.dtype),
            self._cache_argument: self._cache,
            "use_cache": True,
        }
        with anatomy.listen(target.layers, self._taps) as heard:
            final_BMD = target.body(**arguments).last_hidden_state
        return final_BMD, anatomy.stack_taps(final_BMD, heard, self._taps)

    def _features(self, hidden_BMLD: Tensor) -> Features:
        return Features(ids=self._ids, hidden=hidden_BMLD, taps=self._taps)

    def _check_prompts(self, counts: list[int], ids: Sequence[str]) -> None:
        if len(counts) != len(self._counted) or any(self._counted) or (ids and len(ids) != len(counts)):
            raise ValueError(f"{len(counts)} prompts, {len(ids)} ids, for {len(self._counted)} fresh rows")
        names = ids or self._ids
        for name, count in zip(names, counts, strict=True):
            if count == 0:
                raise errors.DataError(
                    doing=f"reading the prompt of {name!r}", met="it is empty", todo="give at least one token"
                )
            if count > self._capacity:
                raise _overflow(name, count, self._capacity)


def _overflow(name: str, length: int, capacity: int) -> errors.ConfigError:
    return errors.ConfigError(
        doing=f"counting the tokens of {name!r}",
        met=f"{length} tokens where room was made for {capacity}",
        todo="open the runner with a larger capacity",
    )
