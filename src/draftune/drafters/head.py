"""Heads: context and summary become logits over the domain vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftune import config as configs
from draftune import kernels
from draftune.drafters.recent import normalize
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import TargetParts


class Head(nn.Module):
    """forward(context [N,D], summary [N,width]) -> logits [N,V']."""

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        raise NotImplementedError

    def packed(self) -> Head:
        """A twin for decoding on a CPU; parts with a faster one than packed linear layers override it."""
        return kernels.with_packed_linears(self)


def lent_rows(parts: TargetParts, vocabulary: Vocabulary) -> tuple[Tensor, Tensor | None]:
    """The rows [V',D] of the target's LM head for a vocabulary, and their biases [V'] where it has any."""
    ids = vocabulary.ids.to(parts.head_VD.device)
    bias_V = None if parts.head_bias_V is None else parts.head_bias_V[ids].detach()
    return parts.head_VD[ids].detach(), bias_V


class TargetHead(Head):
    """The target's own LM head on the summary, or on the context where nothing recent is kept. Never trained."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pass

    rows_VD: Tensor
    bias_V: Tensor | None

    def __init__(self, config: Config, parts: TargetParts, vocabulary: Vocabulary, summary_width: int) -> None:
        super().__init__()
        rows_VD, bias_V = lent_rows(parts, vocabulary)
        self.register_buffer("rows_VD", rows_VD, persistent=False)
        self.register_buffer("bias_V", bias_V, persistent=False)

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        return F.linear(summary_NW if summary_NW.shape[-1] else context_ND, self.rows_VD, self.bias_V)

    def packed(self) -> Head:
        return _PackedTargetHead(self)


class _PackedTargetHead(Head):
    def __init__(self, head: TargetHead) -> None:
        super().__init__()
        self.out = kernels.Matrix(head.rows_VD, head.bias_V)

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        return self.out(summary_NW if summary_NW.shape[-1] else context_ND)


class MarkovHead(Head):
    """The target's own LM head on the context, plus a bias of low rank in logit space that the summary decides."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pass

    def __init__(self, config: Config, parts: TargetParts, vocabulary: Vocabulary, summary_width: int) -> None:
        super().__init__()
        self.target = TargetHead(TargetHead.Config(), parts, vocabulary, 0)
        self.bias = nn.Linear(summary_width, vocabulary.size)
        nn.init.zeros_(self.bias.weight)
        nn.init.zeros_(self.bias.bias)

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        return self.target(context_ND, summary_NW[:, :0]) + self.bias(summary_NW)

    def packed(self) -> Head:
        twin = kernels.with_packed_linears(self)
        twin.target = self.target.packed()
        return twin


class ResidualHead(Head):
    """Residual blocks on [h; s], then a matrix whose half for h starts as LM-head rows.

    Source: Cheng et al. 2024, ReDrafter (recurrent drafter), section 3.1.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        blocks: int = 2

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a residual head", blocks=1)

    def __init__(self, config: Config, parts: TargetParts, vocabulary: Vocabulary, summary_width: int) -> None:
        super().__init__()
        hidden_size = parts.shape.hidden_size
        width = hidden_size + summary_width
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(config.blocks))
        rows_VD, bias_V = lent_rows(parts, vocabulary)
        self.out = nn.Linear(width, vocabulary.size)
        with torch.no_grad():
            for block in self.blocks:
                block.weight.zero_()  # type: ignore[operator]
                block.bias.zero_()  # type: ignore[operator]
            self.out.weight[:, :hidden_size].copy_(rows_VD)
            self.out.weight[:, hidden_size:].zero_()
            self.out.bias.copy_(bias_V) if bias_V is not None else self.out.bias.zero_()

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        x_NX = torch.cat([context_ND, summary_NW], dim=-1)
        for block in self.blocks:
            x_NX = x_NX + F.silu(block(x_NX))
        return self.out(x_NX)


class MlpHead(Head):
    """MLP([h; s]) shared over the offsets: h + W_2 SiLU(W_1 [norm(h); s]), then a matrix that starts as LM-head rows.

    It starts near the target's own next-token logits and learns to move them by the recent tokens.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        inner: int = 0  # 0 = twice the target's hidden size

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building an mlp head", inner=0)

    def __init__(self, config: Config, parts: TargetParts, vocabulary: Vocabulary, summary_width: int) -> None:
        super().__init__()
        hidden_size = parts.shape.hidden_size
        inner = config.inner or 2 * hidden_size
        self.up = nn.Linear(hidden_size + summary_width, inner)
        self.down = nn.Linear(inner, hidden_size)
        rows_VD, bias_V = lent_rows(parts, vocabulary)
        self.out = nn.Linear(hidden_size, vocabulary.size)
        with torch.no_grad():
            self.out.weight.copy_(rows_VD)
            self.out.bias.copy_(bias_V) if bias_V is not None else self.out.bias.zero_()

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        mixed_ND = self.down(F.silu(self.up(torch.cat([normalize(context_ND), summary_NW], dim=-1))))
        return self.out(context_ND + mixed_ND)

    def packed(self) -> Head:
        return _PackedMlpHead(self)


class _PackedMlpHead(Head):
    """The context's part of the first product is made once, for as long as the same tensor is handed in."""

    def __init__(self, head: MlpHead) -> None:
        super().__init__()
        hidden_size = head.down.out_features
        self.of_context = kernels.Matrix(head.up.weight[:, :hidden_size], head.up.bias)
        self.of_summary = kernels.Matrix(head.up.weight[:, hidden_size:])
        self.down, self.out = (
            kernels.Matrix(head.down.weight, head.down.bias),
            kernels.Matrix(head.out.weight, head.out.bias),
        )
        self._context_ND = self._part_NI = torch.empty(0)

    def forward(self, context_ND: Tensor, summary_NW: Tensor) -> Tensor:
        if context_ND is not self._context_ND:
            self._context_ND, self._part_NI = context_ND, self.of_context(normalize(context_ND))
        inner_NI = self.of_summary(summary_NW, add_MN=self._part_NI, silu=True)
        return self.out(self.down(inner_NI, add_MN=context_ND))
