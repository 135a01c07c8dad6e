"""What the other rooms know of a target: its shape, the parts it lends, and the Runner contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from draftune.types import Features

FINAL = -1  # tap number of the final-norm output h; tap l >= 0 is the residual stream after decoder layer l


@dataclass(frozen=True, kw_only=True)
class TargetShape:
    """The numbers by which a drafter and a target can be told to fit."""

    vocab_size: int  # rows of the LM head, which may exceed the tokenizer's
    hidden_size: int
    num_layers: int
    max_length: int  # tokens, prompt and answer together


@dataclass(frozen=True, kw_only=True)
class TargetParts:
    """What a target lends to its drafter: read, never trained, never saved with the drafter."""

    shape: TargetShape
    embedding_VD: Tensor
    head_VD: Tensor  # LM head; the embedding itself where the model ties them
    head_bias_V: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one forward of a Runner gives back."""

    logits: Tensor  # [B,M,V] of the tokens read; after a prefill [B,1,V], each row's last token
    features: Features  # hidden [B,M,L,D]; after a prefill [B,T,L,D], right-padded


class Runner(Protocol):
    """A target that reads blocks of tokens and remembers those that are committed.

    A row's tokens beyond its length are not counted: rejecting drafts is committing fewer of them.
    The order of calls is `open`, `prefill`, then any number of `forward` and `commit` pairs.
    """

    kind: ClassVar[str]  # as it is named in reports
    shape: TargetShape
    device: torch.device
    lengths: Tensor  # [B] int64: committed tokens of each row

    def open(self, num_rows: int, capacity: int, taps: Sequence[int]) -> None:
        """Forget everything and make room for `num_rows` rows of at most `capacity` tokens."""
        ...

    def prefill(self, prompts: Sequence[Sequence[int]], ids: Sequence[str] = ()) -> Step:
        """Read and commit the prompts, one per row, each at least one token long."""
        ...

    def forward(self, tokens_BM: Tensor, depths_M: Tensor | None = None, ancestors_MM: Tensor | None = None) -> Step:
        """Read M tokens a row after the committed ones, committing nothing.

        Without a tree the M tokens follow one another. With one, `depths_M` gives each node's distance from the
        first (0, 1, 1, 2 for a root, two children and a grandchild) and `ancestors_MM` [query, key] is True where
        the key is the node itself or above it.
        """
        ...

    def commit(self, num_tokens_B: Tensor) -> None:
        """Count the first `num_tokens_B` tokens of the last forward's rows (0 leaves a row as it was).

        Counts on the host make no device wait.
        """
        ...
