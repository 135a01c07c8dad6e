"""What a frozen target computed on rows, kept so that several epochs and several drafters share one forward."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftune.drafters.base import DraftBatch
from draftune.target.target import Target
from draftune.types import Example, Features


def collate(examples: Sequence[Example], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """tokens [B,T] int64 and learned [B,T] bool, right-padded, and lengths [B]."""
    lengths = [len(example.tokens) for example in examples]
    tokens_BT = torch.zeros(len(examples), max(lengths), dtype=torch.int64)
    learned_BT = torch.zeros(len(examples), max(lengths), dtype=torch.bool)
    for row, example in enumerate(examples):
        tokens_BT[row, : lengths[row]] = torch.tensor(example.tokens)
        learned_BT[row, : lengths[row]] = torch.tensor(example.learned)
    return tokens_BT.to(device), learned_BT.to(device), torch.tensor(lengths, device=device)


def span_start(example: Example, whole: bool) -> int:
    """The first position whose features are kept: the last of the prompt, where the first draft looks back to."""
    return 0 if whole else max(example.prompt_length - 1, 0)


@torch.no_grad()
def compute(target: Target, examples: Sequence[Example], taps: Sequence[int], *, whole: bool) -> list[Tensor]:
    """[S,L,D] for each example: hidden states from its `span_start` on, by one forward without gradients."""
    target.model.eval()
    tokens_BT, _, lengths_B = collate(examples, target.device)
    hidden_BTLD = target.hidden(tokens_BT, lengths_B, taps).hidden
    rows = zip(examples, hidden_BTLD, strict=True)
    return [hidden_TLD[span_start(example, whole) : len(example.tokens)].clone() for example, hidden_TLD in rows]


def assemble(examples: Sequence[Example], hidden: Sequence[Tensor], taps: Sequence[int], *, whole: bool) -> DraftBatch:
    """Rows cut to their spans and right-padded, with the features that `compute` made of them."""
    cut = [_cut(example, span_start(example, whole)) for example in examples]
    device = hidden[0].device
    tokens_BS, learned_BS, lengths_B = collate(cut, device)
    hidden_BSLD = torch.nn.utils.rnn.pad_sequence(list(hidden), batch_first=True)
    features = Features(ids=tuple(example.id for example in examples), hidden=hidden_BSLD, taps=tuple(taps))
    return DraftBatch(tokens=tokens_BS, learned=learned_BS, lengths=lengths_B, features=features)


def _cut(example: Example, start: int) -> Example:
    return Example(id=example.id, tokens=example.tokens[start:], learned=example.learned[start:])


class FeatureCache:
    """Hidden states of `examples`, computed in fixed `groups` of rows when first asked for.

    `kept` tells which groups fit into `limit_bytes`; the others are computed again each time. A group is always
    computed as a whole, so a feature does not depend on who asks for it, nor on a resume.
    """

    def __init__(
        self,
        target: Target,
        examples: Sequence[Example],
        taps: Sequence[int],
        groups: Sequence[list[int]],
        *,
        whole: bool,
        limit_bytes: int,
    ) -> None:
        self.target, self.examples, self.groups = target, examples, groups
        self.taps, self.whole = tuple(taps), whole
        self.kept = self._choose(limit_bytes)
        self.group_of = {row: index for index, group in enumerate(groups) for row in group}
        self.seconds: dict[int, float] = {}  # what each group's forward took
        self._hidden: dict[int, Tensor] = {}

    def group(self, index: int) -> dict[int, Tensor]:
        """[S,L,D] by row of one group."""
        rows = self.groups[index]
        if rows[0] in self._hidden:
            return {row: self._hidden[row] for row in rows}
        start = time.perf_counter()
        hidden = compute(self.target, [self.examples[row] for row in rows], self.taps, whole=self.whole)
        made = dict(zip(rows, hidden, strict=True))
        self.seconds[index] = time.perf_counter() - start
        if self.kept[index]:
            self._hidden.update(made)
        return made

    def size_bytes(self, kept: bool = True) -> int:
        """Bytes of all groups that are kept (or are not)."""
        return sum(self._bytes(group) for group, keep in zip(self.groups, self.kept, strict=True) if keep == kept)

    def _choose(self, limit_bytes: int) -> list[bool]:
        kept, used = [], 0
        for group in self.groups:
            used += self._bytes(group)
            kept.append(used <= limit_bytes)
        return kept

    def _bytes(self, rows: Sequence[int]) -> int:
        one = len(self.taps) * self.target.shape.hidden_size * self.target.dtype.itemsize
        return sum(one * (len(self.examples[row].tokens) - span_start(self.examples[row], self.whole)) for row in rows)


@dataclass
class FeatureView:
    """One drafter's eyes on a cache: its own taps, and the seconds that others spent for it."""

    cache: FeatureCache
    taps: tuple[int, ...]

    def __post_init__(self) -> None:
        self.borrowed_s = 0.0
        self._met: set[int] = set()
        self._columns = [self.cache.taps.index(tap) for tap in self.taps]

    def batch(self, rows: Sequence[int]) -> DraftBatch:
        """The rows as this drafter learns from them."""
        hidden: dict[int, Tensor] = {}
        for row in rows:
            if row not in hidden:
                hidden |= self._group(self.cache.group_of[row])
        examples = [self.cache.examples[row] for row in rows]
        chosen = [hidden[row] for row in rows]
        if self.taps != self.cache.taps:
            chosen = [hidden_SLD[:, self._columns] for hidden_SLD in chosen]
        return assemble(examples, chosen, self.taps, whole=self.cache.whole)

    def _group(self, index: int) -> dict[int, Tensor]:
        known = index in self.cache.seconds and self.cache.kept[index]
        if known and index not in self._met:
            self.borrowed_s += self.cache.seconds[index]
        self._met.add(index)
        return self.cache.group(index)
