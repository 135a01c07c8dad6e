"""Every row has its turn in every pass, in an order that only the names decide."""

from __future__ import annotations

import random

import pytest

from draftune.train import plan
from draftune.train.plan import Plan

LENGTHS = random.Random(7).choices(range(5, 61), k=157)


def flat(batches: list[list[int]]) -> list[int]:
    return sorted(row for batch in batches for row in batch)


def padding(batches: list[list[int]]) -> int:
    return sum(max(LENGTHS[row] for row in batch) * len(batch) for batch in batches) - sum(LENGTHS)


def test_batches_hold_every_row_once_within_the_limits() -> None:
    batches = plan.batches(LENGTHS, range(157), 8, 200, "a")
    assert flat(batches) == list(range(157))
    assert all(len(batch) <= 8 for batch in batches)
    assert all(max(LENGTHS[row] for row in batch) * len(batch) <= 200 for batch in batches)
    assert flat(plan.batches(LENGTHS, range(157), 8, 1, "a")) == list(range(157)), "a row too long is alone, not lost"


def test_order_depends_on_the_names_alone() -> None:
    batches = plan.batches(LENGTHS, range(157), 8, 8192, 0, "adapter", 0)
    assert batches == plan.batches(LENGTHS, range(157), 8, 8192, 0, "adapter", 0)
    assert batches != plan.batches(LENGTHS, range(157), 8, 8192, 0, "adapter", 1)
    assert batches != sorted(batches, key=lambda batch: LENGTHS[batch[0]]), "short batches do not come first"


def test_rows_of_a_batch_have_similar_lengths() -> None:
    shuffled = random.Random(0).sample(range(157), 157)
    unsorted = [shuffled[start : start + 8] for start in range(0, 157, 8)]
    assert padding(plan.batches(LENGTHS, range(157), 8, 8192, "a")) < padding(unsorted) / 4


@pytest.mark.parametrize("start", [0, 1, 19, 20, 33])
def test_steps_from_the_middle_are_the_rest(start: int) -> None:
    steps = Plan(LENGTHS, 2, 8, 8192, "a")
    whole = list(steps.steps())
    assert len(whole) == steps.total
    assert list(steps.steps(start)) == whole[start:]


def test_groups_whose_features_are_not_kept_stay_whole() -> None:
    groups = plan.batches(LENGTHS, range(157), 8, 8192, "features")
    kept = [index < 12 for index in range(len(groups))]
    steps = Plan(LENGTHS, 3, 8, 8192, "a", first=groups, kept=kept)
    assert steps.epoch(0) == groups
    for number in (1, 2):
        batches = steps.epoch(number)
        assert flat(batches) == list(range(157))
        assert all(group in batches for group, keep in zip(groups, kept, strict=True) if not keep)
        assert not all(group in batches for group, keep in zip(groups, kept, strict=True) if keep), "the rest is mixed"


def test_a_cut_first_pass_leaves_the_rows_seen() -> None:
    groups = plan.batches(LENGTHS, range(157), 8, 8192, "features")
    steps = Plan(LENGTHS, 2, 8, 8192, "a", first=groups, kept=[True] * len(groups))
    taken = []
    for step, epoch, rows in steps.steps():
        taken.append((epoch, rows))
        if step == 4:
            steps.cut_first(5)
    seen = flat(groups[:5])
    assert [rows for epoch, rows in taken if epoch == 0] == groups[:5]
    assert flat([rows for epoch, rows in taken if epoch == 1]) == seen
    assert steps.total == len(taken)
