"""The cosines and sines by which positions turn queries and keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from draftune.target.target import Target

Rotary = Callable[[int], tuple[Tensor, Tensor]]  # cosines and sines [P,R/2] in fp32 of the positions 0..P-1
TRIED = 1024  # positions at which the plain formula is held against the model's own module


@dataclass(frozen=True)
class Frequencies:
    """The plain formula: every pair turns at a constant speed."""

    speeds_R: Tensor  # [R/2] fp32, radians a position
    scale: float = 1.0  # of cosine and sine

    def __call__(self, num_positions: int) -> tuple[Tensor, Tensor]:
        return self.at(torch.arange(num_positions))

    def at(self, positions_P: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [P,R/2] of some positions."""
        angles_PR = torch.outer(positions_P.float(), self.speeds_R)
        return angles_PR.cos() * self.scale, angles_PR.sin() * self.scale


def rotary_of(target: Target) -> Rotary:
    """The plain formula where it gives what the model's own module gives, bit by bit; else that module."""
    body: Any = target.body
    module, width, longest = body.rotary_emb, target.shape.hidden_size, target.shape.max_length

    def ask(positions_P: Tensor) -> tuple[Tensor, Tensor]:
        tables = module(torch.zeros(1, 1, width), positions_P[None])
        cosine_PR, sine_PR = (one[0, :, : one.shape[-1] // 2].float().contiguous() for one in tables)
        return cosine_PR, sine_PR

    speeds_R, scale = getattr(module, "inv_freq", None), getattr(module, "attention_scaling", 1.0)
    if isinstance(speeds_R, Tensor):
        plain = Frequencies(speeds_R.detach().float().clone(), scale)
        tried_P = torch.arange(0, longest, -(-longest // TRIED))
        if all(torch.equal(one, other) for one, other in zip(plain.at(tried_P), ask(tried_P), strict=True)):
            return plain
    return lambda num_positions: ask(torch.arange(num_positions))
