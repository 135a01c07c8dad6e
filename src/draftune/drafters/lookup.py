"""`lookup`: copies what followed the longest earlier occurrence of the newest tokens. Nothing to train.

Source: Saxena 2023, prompt lookup decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftune import errors
from draftune.drafters.base import Config, Drafter, Prefix, Sampler
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import TargetParts
from draftune.types import Draft, Features, Verdict


@dataclass(frozen=True, kw_only=True)
class LookupConfig(Config):
    """How long a suffix may, and must, match."""

    longest: int = 5
    shortest: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            met = f"suffix lengths {self.shortest}..{self.longest}"
            raise errors.ConfigError(doing="building lookup", met=met, todo="give 1 <= shortest <= longest")

    def build(self, parts: TargetParts, vocabulary: Vocabulary) -> Lookup:
        return Lookup(self)


class Lookup(Drafter):
    """Each row's state is the list of its tokens, the anchor last."""

    taps = ()
    trainable = False

    def __init__(self, config: LookupConfig) -> None:
        super().__init__()
        self.config = config

    def begin(self, prefix: Prefix) -> list[list[int]]:
        lengths, anchors = prefix.lengths.tolist(), prefix.anchor.tolist()
        rows = [row[:length] for row, length in zip(prefix.tokens.tolist(), lengths, strict=True)]
        return [[*row, anchor] for row, anchor in zip(rows, anchors, strict=True)]

    def propose(self, state: list[list[int]], budget_B: Tensor, sampler: Sampler) -> Draft:
        config = self.config
        found = [
            continuation(row, budget, config.longest, config.shortest)
            for row, budget in zip(state, budget_B.tolist(), strict=True)
        ]
        tokens_BK = torch.zeros(len(found), max(map(len, found)), dtype=torch.int64)
        for row, guess in zip(tokens_BK, found, strict=True):
            row[: len(guess)] = torch.tensor(guess, dtype=torch.int64)
        num_drafted_B = torch.tensor([len(guess) for guess in found])
        return Draft(tokens=tokens_BK, num_drafted=num_drafted_B)

    def observe(self, state: list[list[int]], draft: Draft, verdict: Verdict, features: Features) -> list[list[int]]:
        verdicts = zip(
            state, draft.tokens.tolist(), verdict.num_accepted.tolist(), verdict.next_token.tolist(), strict=True
        )
        return [[*row, *tokens[:accepted], anchor] for row, tokens, accepted, anchor in verdicts]


def continuation(tokens: Sequence[int], budget: int, longest: int, shortest: int) -> list[int]:
    """At most `budget` tokens that followed the latest earlier occurrence of the longest matching suffix.

    In a b c a b with budget 2: the suffix a b occurred before, c a followed it.
    """
    if budget <= 0:
        return []
    tokens = list(tokens)
    for length in range(min(longest, len(tokens) - 1), shortest - 1, -1):
        suffix = tokens[-length:]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == suffix:
                return tokens[start + length : start + length + budget]
    return []
