"""The gate between the draft loss and the adapter: closed while joint training costs the target quality."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

from draftune.train import seed
from draftune.train.config import TrainConfig
from draftune.train.history import History, Record

PLAIN, JOINT = "adapter", "joint"  # the stages that are compared
EXCESS = "nll_excess"  # of the jointly tuned target over the plainly tuned one, as a share


class Gate:
    """How much of the draft loss's gradient reaches the adapter in a step of the stage `joint`.

    It follows from the settings, the step and the history alone, so a resumed run decides as the first one did.
    """

    def __init__(self, config: TrainConfig, history: History) -> None:
        self.config, self.history = config, history

    def scale(self, index: int, progress: float) -> float:
        """The factor of the gradient in step `index`: 0 while the drafter warms up, and while the guard stops it."""
        config = self.config
        if progress < config.joint_warmup or self.closed:
            return 0.0
        passed = random.Random(seed.derive(config.seed, "draft gradient", index)).random() < config.draft_gradient_share
        return config.draft_gradient if passed else 0.0

    @property
    def closed(self) -> bool:
        """Whether the newest comparison found the joint target worse than the guard allows."""
        guard, compared = self.config.guard, self.compared()
        return guard is not None and bool(compared) and compared[-1][EXCESS] > guard

    def compared(self) -> list[Record]:
        """The evaluations of the joint stage that were held against plain LoRA, oldest first."""
        return [record for record in self.history.of(JOINT) if EXCESS in record]

    def excess(self, progress: float, nll: float) -> float | None:
        """How far `nll` at this progress lies above that of plain LoRA, as a share; None where that is not known."""
        plain = next((record for record in self.history.of(PLAIN) if _same_place(record, progress)), None)
        return None if plain is None else nll / plain["nll"] - 1

    def summary(self) -> dict[str, Any] | None:
        """What the guard saw and did; None where there was nothing to compare."""
        compared = self.compared()
        if self.config.guard is None or not compared:
            return None
        closed = [record["step"] for record in compared if record[EXCESS] > self.config.guard]
        return {EXCESS: compared[-1][EXCESS], "stopped_after_steps": closed}


def scaled(hidden: Tensor, scale: float) -> Tensor:
    """The same values, whose gradient is multiplied by `scale` on its way back."""
    if scale == 0 or not hidden.requires_grad:
        return hidden.detach()
    return hidden if scale == 1 else _Scaled.apply(hidden, scale)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return hidden.view_as(hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.scale, None


def _same_place(record: Record, progress: float) -> bool:
    return record["kind"] == "evaluation" and "nll" in record and record["progress"] == progress
