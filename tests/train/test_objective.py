"""Cross-entropy and distillation as the formula says it, and agreement walked as decoding would."""

from __future__ import annotations

import math

import pytest
import torch

from draftune.drafters.base import DraftBatch, Windows
from draftune.drafters.vocabulary import Vocabulary
from draftune.drafters.windows import windows
from draftune.target.base import FINAL
from draftune.train.objective import Agreement, CrossEntropy, Distillation, Teacher
from draftune.types import Features

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


def heard(tokens: list[list[int]], learned: list[list[bool]], width: int = 4) -> DraftBatch:
    """A batch whose hidden states are random."""
    hidden = torch.randn(len(tokens), len(tokens[0]), 1, width, generator=torch.Generator().manual_seed(0))
    ids = tuple(str(row) for row in range(len(tokens)))
    return DraftBatch(
        tokens=torch.tensor(tokens),
        learned=torch.tensor(learned),
        lengths=torch.tensor([sum(one) + 1 for one in learned]),
        features=Features(ids=ids, hidden=hidden, taps=(FINAL,)),
    )


BATCH = heard(
    [[9, 1, 2, 3, 4, 5], [9, 2, 2, 1, 0, 0]],
    [[False, True, True, True, True, True], [False, True, True, True, False, False]],
)
MATRIX = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("hard", [False, True])
def test_distillation_is_the_cross_entropy_from_what_the_target_says_there(hard: bool) -> None:
    spots = windows(BATCH, 2, Vocabulary.full(6))
    teacher = Teacher(BATCH, lambda hidden_PD: hidden_PD @ MATRIX)
    objective = Distillation(2, 0.5, teacher, hard=hard)
    for offset, weight in ((1, 2 / 3), (2, 1 / 3)):
        drafted = torch.randn(len(spots.row), 6, generator=torch.Generator().manual_seed(offset))
        wanted, agreed = [], 0
        for n, (row, position) in enumerate(zip(spots.row.tolist(), spots.position.tolist(), strict=True)):
            if not spots.counted[n, offset - 1]:
                continue
            said = BATCH.features.hidden[row, position + offset, 0] @ MATRIX
            p = torch.softmax(said, -1) if not hard else torch.nn.functional.one_hot(said.argmax(), 6).float()
            wanted.append(float(-(p * torch.log_softmax(drafted[n], -1)).sum()))
            agreed += int(said.argmax() == drafted[n].argmax())
        assert float(objective(offset, drafted, spots)) == pytest.approx(weight * sum(wanted) / len(wanted), rel=1e-5)
        assert objective.metrics()[f"agreement_{offset}"] == (agreed, len(wanted))


def test_a_drafter_that_says_what_the_target_says_has_the_least_loss() -> None:
    spots = windows(BATCH, 1, Vocabulary.full(6))
    teacher = Teacher(BATCH, lambda hidden_PD: hidden_PD @ MATRIX)
    logits_NV = teacher(1, spots).clone().requires_grad_()
    Distillation(1, 0.8, teacher)(1, logits_NV, spots).backward()
    assert logits_NV.grad is not None
    assert logits_NV.grad.abs().max() < 1e-6
