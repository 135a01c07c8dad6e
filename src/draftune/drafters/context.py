"""Contexts: what the drafter keeps of the target's hidden states at the last verified token, once a round."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftune import config as configs
from draftune import errors, kernels
from draftune.drafters.recent import normalize
from draftune.target.base import FINAL, TargetShape


class Context(nn.Module):
    """encode(h_t [B,L*D]) -> [B,1|K,D]: one context for all draft offsets, or one for each.

    `taps` are the layers heard, side by side in what comes in: the final-norm output alone unless a context says
    otherwise. `max_drafts` is the largest K it can serve; None means any.
    """

    taps: tuple[int, ...] = (FINAL,)
    max_drafts: int | None = None

    def forward(self, hidden_BX: Tensor) -> Tensor:
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


class Fused(Context):
    """h_t moved by what several layers knew: h + W [norm(tap_1); ..; norm(h)], the identity at the start.

    The last layer has narrowed down to the next token; layers before it know more of what comes later.
    Source: Li et al. 2025, EAGLE-3, section 3.1 (fusing low, middle and high layers).
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        depths: tuple[float, ...] = (0.33, 0.67)  # of the tapped layers, as shares of the model's depth

        def __post_init__(self) -> None:
            odd = next((depth for depth in self.depths if not 0 <= depth <= 1), None)
            if odd is not None or len(set(self.depths)) != len(self.depths):
                met = f"depths {', '.join(map(str, self.depths))}"
                raise errors.ConfigError(
                    doing="building a fused context", met=met, todo="give different shares between 0 and 1"
                )

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        layers = [round(depth * (shape.num_layers - 1)) for depth in config.depths]
        self.taps = (*dict.fromkeys(layers), FINAL)
        self.mix = nn.Linear(len(self.taps) * shape.hidden_size, shape.hidden_size)
        nn.init.zeros_(self.mix.weight)
        nn.init.zeros_(self.mix.bias)

    def forward(self, hidden_BX: Tensor) -> Tensor:
        hidden_BLD = hidden_BX.unflatten(-1, (len(self.taps), -1))
        return (hidden_BLD[:, -1] + self.mix(normalize(hidden_BLD).flatten(1)))[:, None]


class _PackedResidual(Context):
    """All blocks in one product."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.max_drafts = residual.max_drafts
        self.blocks = kernels.Matrix(residual.weight_KDD.transpose(1, 2).flatten(0, 1), residual.bias_KD.flatten())

    def forward(self, hidden_BD: Tensor) -> Tensor:
        inner_BX = self.blocks(hidden_BD, silu=True)
        return hidden_BD[:, None] + inner_BX.unflatten(1, (-1, hidden_BD.shape[1]))
