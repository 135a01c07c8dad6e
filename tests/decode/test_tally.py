"""Acceptance is counted as the design says."""

from __future__ import annotations

import math

import pytest
import torch

from draftune.decode.tally import Tally
from draftune.decode.walk import walk
from draftune.types import Round


def rounds(*triples: tuple[int, int, int]) -> list[Round]:
    return [Round(num_drafted=d, num_accepted=a, num_emitted=e) for d, a, e in triples]


def test_alpha_averages_the_rounds_that_reached_each_offset() -> None:
    tally = Tally.of_rounds(rounds((3, 0, 1), (3, 2, 3), (3, 3, 4), (1, 1, 2)))
    assert tally.reached == (4, 2, 2)
    assert tally.stood == (3, 2, 1)
    assert tally.alpha == pytest.approx((3 / 4, 1, 1 / 2))
    assert tally.tau == 10 / 4
    assert tally.acceptance_rate == 6 / 10
    assert tally.histogram == (1, 1, 1, 1)


def test_tallies_add_like_their_rounds() -> None:
    left, right = rounds((3, 0, 1), (3, 2, 3)), rounds((5, 5, 6), (0, 0, 1))
    assert Tally.of_rounds(left) + Tally.of_rounds(right) == Tally.of_rounds(left + right)
    assert Tally.of_rounds(left) + Tally() == Tally.of_rounds(left)
    assert math.isnan(Tally().tau)


def test_walk_follows_the_rounds_of_a_short_text() -> None:
    agreement = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]], dtype=torch.bool)
    tally = walk(agreement, 3)
    assert tally.num_rounds == 2
    assert tally.num_emitted == 4  # y_1..y_3, then y_4, which ends the text inside the block
    assert tally.stood == (2, 1, 0)
    assert tally.reached == (2, 1, 1)
