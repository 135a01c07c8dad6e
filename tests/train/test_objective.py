"""Cross-entropy as the formula says it, and agreement walked as decoding would."""

from __future__ import annotations

import math

import pytest
import torch

from draftune.drafters.base import Windows
from draftune.train.objective import Agreement, CrossEntropy

# Two drafts over V' = {3 columns}; labels -1 lie outside it. Two rows: windows 0 and 1 of row 0, window 2 of row 1.
WINDOWS = Windows(
    row=torch.tensor([0, 0, 1]),
    position=torch.tensor([4, 5, 2]),
    tokens=torch.zeros(3, 3, dtype=torch.int64),
    counted=torch.tensor([[True, True], [True, False], [True, True]]),
    labels=torch.tensor([[0, 1], [2, 2], [-1, 0]]),
)
LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [1.0, 0.5, 0.0]])


def ce(window: int, label: int) -> float:
    exponentials = [math.exp(value) for value in LOGITS[window].tolist()]
    return -math.log(exponentials[label] / sum(exponentials))


def test_weights_are_a_decaying_share() -> None:
    weights = CrossEntropy(3, 0.5).weights
    assert weights == pytest.approx([4 / 7, 2 / 7, 1 / 7])


def test_cross_entropy_is_the_mean_over_what_counts() -> None:
    objective = CrossEntropy(2, 0.8)
    first = objective(1, LOGITS, WINDOWS)  # window 2 is outside V'
    second = objective(2, LOGITS, WINDOWS)  # window 1 does not count
    assert float(first) == pytest.approx((ce(0, 0) + ce(1, 2)) / 2 / 1.8)
    assert float(second) == pytest.approx((ce(0, 1) + ce(2, 0)) / 2 * 0.8 / 1.8)
    metrics = objective.metrics()
    assert metrics["ce_1"] == (pytest.approx(ce(0, 0) + ce(1, 2)), 2)
    assert metrics["agreement_1"] == (2, 3), "a token outside V' is a disagreement"
    assert metrics["agreement_2"] == (1, 2)


def test_metrics_add_up_over_calls() -> None:
    objective = CrossEntropy(1, 0.8)
    for _ in range(2):
        objective(1, LOGITS, WINDOWS)
    assert objective.metrics()["agreement_1"] == (4, 6)


def test_nothing_to_learn_is_no_loss() -> None:
    blind = Windows(**{**vars(WINDOWS), "labels": torch.full((3, 2), -1)})
    logits = LOGITS.clone().requires_grad_()
    loss = CrossEntropy(2, 0.8)(1, logits, blind)
    loss.backward()
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_logits_in_low_precision_are_judged_in_fp32() -> None:
    exact = CrossEntropy(1, 0.8)(1, LOGITS, WINDOWS)
    low = CrossEntropy(1, 0.8)(1, LOGITS.to(torch.bfloat16), WINDOWS)
    assert low.dtype == torch.float32
    assert float(low) == float(exact)  # these logits are exact in bf16


def test_agreement_is_walked_row_by_row() -> None:
    agreement = Agreement(2)
    for offset in (1, 2):
        assert float(agreement(offset, LOGITS, WINDOWS)) == 0
    # Row 0 has three tokens: after the first, draft 1 stands and draft 2 falls, which ends it. Row 1's draft 1 falls.
    tally = agreement.tally(["stop", "stop"])
    assert (tally.num_rounds, tally.num_accepted, tally.num_emitted) == (2, 1, 3)
    assert tally.histogram == (1, 1, 0)
    assert agreement.metrics() == {"agreement_1": (2.0, 3.0), "agreement_2": (1.0, 2.0)}
