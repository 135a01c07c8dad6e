"""What every runner has in common: rows with a length each, prompts read in chunks, blocks read and partly counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from draftune import errors
from draftune.target import anatomy
from draftune.target.base import FINAL, Step, TargetShape
from draftune.types import Features

CHUNK = 1024  # prompt tokens read at once, so that a long prompt's memory stays small


@dataclass(frozen=True, kw_only=True)
class Block:
    """M tokens a row, and where they go."""

    tokens: Tensor  # [B,M] int64
    slots: Tensor  # [B,M] int64: the place of each in its row's memory
    positions: Tensor  # [B,M] int64: the same but for a tree, whose siblings share a position
    view: int  # slots of a row that are in use with this block
    depths: Tensor | None = None  # [M] int64 of a tree
    ancestors: Tensor | None = None  # [M,M] bool of a tree: [query, key]


class BlockRunner(ABC):
    """Implements `target.base.Runner` but for the reading itself."""

    kind: ClassVar[str]  # as it is named in reports
    lengths: Tensor

    def __init__(self, shape: TargetShape, device: torch.device) -> None:
        self.shape, self.device = shape, device
        self._counted: list[int] = []  # the lengths again, on the host: no device has to be asked
        self._last = 0  # tokens of the last forward; 0 = nothing to commit

    @abstractmethod
    def _make_room(self, num_rows: int, capacity: int) -> None:
        """Forget everything; have slots for rows of `capacity` tokens, and for drafts beyond that when they come."""

    @abstractmethod
    def _read(self, block: Block) -> tuple[Tensor, Tensor]:
        """Final-norm hidden states [B,M,D] of a block, and those of the taps [B,M,L,D]."""

    @abstractmethod
    def _logits(self, hidden_BMD: Tensor) -> Tensor:
        """Logits [B,M,V] of final-norm hidden states."""

    @abstractmethod
    def _copy_slots(self, sources_BN: Tensor, targets_BN: Tensor) -> None:
        """Copy what is remembered at some slots of each row to others."""

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
        self._make_room(num_rows, capacity)
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
        return Step(logits=self._logits(last_B1D), features=self._features(taps_BTLD))

    @torch.inference_mode()
    def forward(self, tokens_BM: Tensor, depths_M: Tensor | None = None, ancestors_MM: Tensor | None = None) -> Step:
        """Read M tokens a row after the committed ones, committing nothing."""
        num_tokens = tokens_BM.shape[1]
        if tokens_BM.shape[0] != len(self._counted) or num_tokens < 1:
            raise ValueError(f"{tuple(tokens_BM.shape)} tokens for {len(self._counted)} rows")
        slots_BM = positions_BM = self.lengths[:, None] + torch.arange(num_tokens, device=self.device)
        if depths_M is None or ancestors_MM is None:
            depths_M = ancestors_MM = None
        else:
            depths_M, ancestors_MM = depths_M.to(self.device), ancestors_MM.to(self.device)
            positions_BM = self.lengths[:, None] + depths_M
        final_BMD, taps_BMLD = self._read(
            Block(
                tokens=tokens_BM.to(self.device),
                slots=slots_BM,
                positions=self._clamped(positions_BM),
                view=max(self._counted) + num_tokens,
                depths=depths_M,
                ancestors=ancestors_MM,
            )
        )
        self._last = num_tokens
        return Step(logits=self._logits(final_BMD), features=self._features(taps_BMLD))

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
            self.lengths = torch.tensor(lengths, dtype=torch.int64).to(self.device, non_blocking=True)

    @torch.inference_mode()
    def _compact(self, nodes_BN: Tensor) -> None:
        targets_BN = self.lengths[:, None] + torch.arange(nodes_BN.shape[1], device=self.device)
        self._copy_slots(self.lengths[:, None] + nodes_BN, targets_BN)

    def _read_chunk(self, tokens_BT: Tensor, start: int) -> tuple[Tensor, Tensor]:
        tokens_BM = tokens_BT[:, start : start + CHUNK]
        view = start + tokens_BM.shape[1]
        slots_BM = torch.arange(start, view, device=self.device).expand(tokens_BM.shape)
        return self._read(Block(tokens=tokens_BM, slots=slots_BM, positions=self._clamped(slots_BM), view=view))

    def _clamped(self, positions_BM: Tensor) -> Tensor:
        """Beyond the last position lie only tokens that can never be committed."""
        return positions_BM.clamp(max=self.shape.max_length - 1)

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
