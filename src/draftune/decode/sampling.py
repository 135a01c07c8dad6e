"""Where logits become probabilities, in fp32 and in one place, for the target and the drafter alike."""

from __future__ import annotations

import torch
from torch import Tensor

from draftune import kernels


def widen(logits: Tensor) -> Tensor:
    """The logits in fp32, or in float64 where they come in float64."""
    return logits if logits.dtype == torch.float64 else logits.float()


def probabilities(logits: Tensor, temperature_B: Tensor) -> Tensor:
    """softmax(logits / temperature) over the last dimension; temperature 0 puts all on the largest logit.

    `logits` [B,..,V]; the result has its shape, fp32 (float64 for float64 logits).
    """
    logits = widen(logits)
    temperature = temperature_B.to(logits.dtype).view(-1, *[1] * (logits.dim() - 1))
    warm = torch.softmax(logits / torch.where(temperature > 0, temperature, 1.0), dim=-1)
    if bool((temperature_B > 0).all()):
        return warm
    cold = torch.zeros_like(warm).scatter_(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
    return torch.where(temperature > 0, warm, cold)


def choose(logits: Tensor, temperature_B: Tensor, gumbel: Tensor | None) -> Tensor:
    """argmax(log p + g), the token that keyed noise selects; without noise the largest logit.

    `logits` and `gumbel` [B,..,V]; the result [B,..] int64. log p differs from logits / temperature by a constant.
    """
    logits = widen(logits)
    if gumbel is None:
        return kernels.largest(logits)
    temperature = temperature_B.to(torch.float64).view(-1, *[1] * (logits.dim() - 1))
    warm = logits / torch.where(temperature > 0, temperature, 1.0) + gumbel
    return torch.where((temperature > 0).squeeze(-1), warm.argmax(dim=-1), logits.argmax(dim=-1))


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """The column at which the cumulative weights pass uniform * their sum; weights need not sum to one.

    `weights` [..,V], `uniform` [..] in (0, 1); the result [..] int64. Sums run in float64.
    """
    cumulative = weights.to(torch.float64).cumsum(dim=-1)
    threshold = uniform.to(torch.float64) * cumulative[..., -1]
    column = (cumulative <= threshold[..., None]).sum(dim=-1)
    last = weights.shape[-1] - 1 - (weights.flip(-1) > 0).to(torch.uint8).argmax(dim=-1)  # rounding must not pass it
    return torch.minimum(column, last)
