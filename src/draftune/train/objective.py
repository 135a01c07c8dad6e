"""What training asks of a drafter's logits: a loss to learn by, agreement to be judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from draftune.decode.tally import Tally
from draftune.decode.walk import walk
from draftune.drafters.base import DraftBatch, Windows
from draftune.target.base import FINAL
from draftune.types import FinishReason


class Weighted:
    """A loss sum_k w_k L_k with w_k proportional to decay^(k-1) and sum_k w_k = 1, and what it counted."""

    def __init__(self, num_drafts: int, decay: float) -> None:
        self.num_drafts = num_drafts
        raw = [decay**k for k in range(num_drafts)]
        self.weights = [weight / sum(raw) for weight in raw]
        self._sums: dict[str, tuple[Tensor, Tensor]] = {}

    def metrics(self) -> dict[str, tuple[float, float]]:
        """(sum, count) by name."""
        return {name: (float(total), float(count)) for name, (total, count) in self._sums.items()}

    def _add(self, name: str, total: Tensor, count: Tensor) -> None:
        before = self._sums.get(name)
        self._sums[name] = (total, count) if before is None else (before[0] + total, before[1] + count)


class CrossEntropy(Weighted):
    """CE_k is the mean of -log q_k(x_{t+1+k}), made in fp32 or wider, over the counted windows whose token is in V'.

    Tokens outside V' cannot be learned and count as disagreement in the metrics `agreement_k`.
    """

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        counted_N, labels_N = windows.counted[:, offset - 1], windows.labels[:, offset - 1]
        used_N = counted_N & (labels_N >= 0)
        logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
        nll = F.cross_entropy(logits_NV, labels_N.masked_fill(~used_N, -100), ignore_index=-100, reduction="sum")
        agree_N = (logits_NV.detach().argmax(dim=-1) == labels_N) & counted_N
        self._add(f"ce_{offset}", nll.detach(), used_N.sum())
        self._add(f"agreement_{offset}", agree_N.sum(), counted_N.sum())
        return self.weights[offset - 1] * nll / used_N.sum().clamp(min=1)


class Teacher:
    """What the target itself would say in a batch, over the columns of a vocabulary; made once for all offsets."""

    def __init__(self, batch: DraftBatch, logits: Callable[[Tensor], Tensor]) -> None:
        """`logits` gives [P,V'] of final-norm hidden states [P,D]."""
        asked_BT = torch.zeros_like(batch.learned)
        asked_BT[:, :-1] = batch.learned[:, 1:]
        self._row_BT = (asked_BT.flatten().cumsum(0) - 1).clamp(min=0).view_as(asked_BT)
        said_PV = logits(batch.features.tap(FINAL)[asked_BT])
        self.logits_PV = said_PV.to(torch.promote_types(said_PV.dtype, torch.float32))

    def __call__(self, offset: int, windows: Windows) -> Tensor:
        """Logits [N,V'] for the token of draft `offset`; of windows where that is not counted, anything."""
        last = self._row_BT.shape[1] - 1
        return self.logits_PV[self._row_BT[windows.row, (windows.position + offset).clamp(max=last)]]


class Distillation(Weighted):
    """L_k is the mean over the counted windows of the cross-entropy from the target's own p_k, over V', to q_k.

    It differs from KL(p_k || q_k) by the entropy of p_k. With `hard`, p_k is a point mass on the target's likeliest
    token, as greedy decoding has it. Agreement is with that token.
    Source: Zhou et al. 2024, DistillSpec (forward KL, teacher-forced).
    """

    def __init__(self, num_drafts: int, decay: float, teacher: Teacher, *, hard: bool = False) -> None:
        super().__init__(num_drafts, decay)
        self._teacher, self._hard = teacher, hard

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        counted_N = windows.counted[:, offset - 1]
        logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
        with torch.no_grad():
            said_NV = self._teacher(offset, windows)
            likeliest_N = said_NV.argmax(dim=-1)
            wanted = likeliest_N if self._hard else torch.softmax(said_NV, dim=-1).to(logits_NV.dtype)
        total = (F.cross_entropy(logits_NV, wanted, reduction="none") * counted_N).sum()
        agree_N = (logits_NV.detach().argmax(dim=-1) == likeliest_N) & counted_N
        self._add(f"ce_{offset}", total.detach(), counted_N.sum())
        self._add(f"agreement_{offset}", agree_N.sum(), counted_N.sum())
        return self.weights[offset - 1] * total / counted_N.sum().clamp(min=1)


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
