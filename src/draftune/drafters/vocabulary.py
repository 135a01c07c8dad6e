"""The domain vocabulary V': the tokens a drafter predicts over, as ids of the target's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from draftune import errors


class Vocabulary(nn.Module):
    """A sorted set of token ids and the map to and fro. Outside it q is zero, so exactness is untouched.

    `ids` [V'] int64; `column` [V] is made from it. Stored beside the weights by `drafters.store`, not among them.
    """

    ids: Tensor
    column: Tensor

    def __init__(self, ids: Tensor, full_size: int) -> None:
        super().__init__()
        ids = torch.unique(ids.to(torch.int64))  # sorted
        if ids.numel() == 0 or int(ids[0]) < 0 or int(ids[-1]) >= full_size:
            raise errors.ConfigError(
                doing="making a domain vocabulary",
                met=f"{ids.numel()} ids outside or beyond 0..{full_size - 1}",
                todo="give at least one id of the target's vocabulary",
            )
        self.full_size = full_size
        column = torch.full((full_size,), -1, dtype=torch.int64)
        column[ids] = torch.arange(ids.numel())
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("column", column, persistent=False)

    @classmethod
    def full(cls, full_size: int) -> Vocabulary:
        """The whole vocabulary of the target."""
        return cls(torch.arange(full_size), full_size)

    @classmethod
    def from_counts(cls, counts: Mapping[int, int], full_size: int, max_size: int) -> Vocabulary:
        """The `max_size` most frequent tokens; equal counts go to the lower id."""
        ranked = sorted(counts, key=lambda token: (-counts[token], token))[:max_size]
        return cls(torch.tensor(ranked, dtype=torch.int64), full_size)

    @property
    def size(self) -> int:
        """V'."""
        return self.ids.numel()

    @property
    def columns_or_none(self) -> Tensor | None:
        """The ids where the vocabulary is trimmed, None where it is the whole one."""
        return None if self.size == self.full_size else self.ids

    def labels(self, tokens: Tensor) -> Tensor:
        """Columns of full-vocabulary tokens, any shape; -1 where a token is outside V'."""
        return self.column[tokens]
