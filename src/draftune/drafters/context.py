"""Contexts: what the drafter keeps of the target's last hidden state, once a round."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftune import config as configs
from draftune import kernels
from draftune.target.base import TargetShape


class Context(nn.Module):
    """encode(h_t [B,D]) -> [B,1|K,D]: one context for all draft offsets, or one for each.

    `max_drafts` is the largest K it can serve; None means any.
    """

    max_drafts: int | None = None

    def forward(self, hidden_BD: Tensor) -> Tensor:
        raise NotImplementedError

    def packed(self) -> Context:
        """A twin for decoding on a CPU; parts with a faster one than packed linear layers override it."""
        return kernels.with_packed_linears(self)


class Hidden(Context):
    """h_t as it is: already computed, slightly stale, shared by all offsets."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pass

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()

    def forward(self, hidden_BD: Tensor) -> Tensor:
        return hidden_BD[:, None]


class Residual(Context):
    """h_t through one residual block per offset: h + SiLU(W_k h + b_k), identity at the start.

    Source: Cai et al. 2024, Medusa, section 2.1.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        num_drafts: int = 5  # one block for each offset; a run hands in its own K

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a residual context", num_drafts=1)

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        self.max_drafts = config.num_drafts
        self.weight_KDD = nn.Parameter(torch.zeros(config.num_drafts, shape.hidden_size, shape.hidden_size))
        self.bias_KD = nn.Parameter(torch.zeros(config.num_drafts, shape.hidden_size))

    def forward(self, hidden_BD: Tensor) -> Tensor:
        inner_BKD = torch.einsum("bd,kde->bke", hidden_BD, self.weight_KDD) + self.bias_KD
        return hidden_BD[:, None] + F.silu(inner_BKD)

    def packed(self) -> Context:
        return _PackedResidual(self)


class _PackedResidual(Context):
    """All blocks in one product."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.max_drafts = residual.max_drafts
        self.blocks = kernels.Matrix(residual.weight_KDD.transpose(1, 2).flatten(0, 1), residual.bias_KD.flatten())

    def forward(self, hidden_BD: Tensor) -> Tensor:
        inner_BX = self.blocks(hidden_BD, silu=True)
        return hidden_BD[:, None] + inner_BX.unflatten(1, (-1, hidden_BD.shape[1]))
