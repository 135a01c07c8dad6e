"""What training asks of a drafter's logits: cross-entropy to learn by, agreement to be judged by."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from draftune.decode.tally import Tally
from draftune.decode.walk import walk
from draftune.drafters.base import Windows
from draftune.types import FinishReason


class CrossEntropy:
    """sum_k w_k CE_k with w_k proportional to decay^(k-1) and sum_k w_k = 1.

    CE_k is the mean of -log q_k(x_{t+1+k}), made in fp32 or wider, over the counted windows whose token is in V'.
    Tokens outside V' cannot be learned and count as disagreement in the metrics `agreement_k`.
    """

    def __init__(self, num_drafts: int, decay: float) -> None:
        self.num_drafts = num_drafts
        raw = [decay**k for k in range(num_drafts)]
        self.weights = [weight / sum(raw) for weight in raw]
        self._sums: dict[str, tuple[Tensor, Tensor]] = {}

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        counted_N, labels_N = windows.counted[:, offset - 1], windows.labels[:, offset - 1]
        used_N = counted_N & (labels_N >= 0)
        logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
        nll = F.cross_entropy(logits_NV, labels_N.masked_fill(~used_N, -100), ignore_index=-100, reduction="sum")
        agree_N = (logits_NV.detach().argmax(dim=-1) == labels_N) & counted_N
        self._add(f"ce_{offset}", nll.detach(), used_N.sum())
        self._add(f"agreement_{offset}", agree_N.sum(), counted_N.sum())
        return self.weights[offset - 1] * nll / used_N.sum().clamp(min=1)

    def metrics(self) -> dict[str, tuple[float, float]]:
        return {name: (float(total), float(count)) for name, (total, count) in self._sums.items()}

    def _add(self, name: str, total: Tensor, count: Tensor) -> None:
        before = self._sums.get(name)
        self._sums[name] = (total, count) if before is None else (before[0] + total, before[1] + count)


class Agreement:
    """Which greedy drafts of one batch would stand; `tally` walks them as greedy decoding would.

    Run it on texts that the target itself said greedily, under no_grad; the loss it gives back is 0.
    """

    def __init__(self, num_drafts: int) -> None:
        self.num_drafts = num_drafts
        self._columns: list[tuple[Tensor, Tensor]] = []
        self._row_N: Tensor | None = None

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        counted_N = windows.counted[:, offset - 1]
        agree_N = (logits_NV.argmax(dim=-1) == windows.labels[:, offset - 1]) & counted_N
        self._columns.append((agree_N, counted_N))
        self._row_N = windows.row
        return logits_NV.new_zeros(())

    def metrics(self) -> dict[str, tuple[float, float]]:
        return {
            f"agreement_{k}": (float(agree_N.sum()), float(counted_N.sum()))
            for k, (agree_N, counted_N) in enumerate(self._columns, start=1)
        }

    def tally(self, finish_reasons: Sequence[FinishReason]) -> Tally:
        """Acceptance over the rows of the batch, given how the text of each ended."""
        if self._row_N is None:
            return Tally()
        agreement_NK = torch.stack([agree_N for agree_N, _ in self._columns], dim=1)
        tallies = (
            walk(agreement_NK[self._row_N == row], self.num_drafts, reason) for row, reason in enumerate(finish_reasons)
        )
        return sum(tallies, start=Tally())
