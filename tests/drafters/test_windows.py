"""Windows are exactly the places where a round could start."""

from __future__ import annotations

import torch

from draftune.drafters.base import DraftBatch
from draftune.drafters.vocabulary import Vocabulary
from draftune.drafters.windows import windows
from draftune.target.base import FINAL
from draftune.types import Features


def batch(tokens: list[list[int]], learned: list[list[int]], lengths: list[int]) -> DraftBatch:
    hidden = torch.zeros(len(tokens), len(tokens[0]), 1, 4)
    features = Features(ids=tuple(map(str, range(len(tokens)))), hidden=hidden, taps=(FINAL,))
    return DraftBatch(
        tokens=torch.tensor(tokens),
        learned=torch.tensor(learned, dtype=torch.bool),
        lengths=torch.tensor(lengths),
        features=features,
    )


def test_the_example_of_the_docstring() -> None:
    spots = windows(batch([[10, 11, 12, 13, 14]], [[0, 0, 1, 1, 1]], [5]), 2, Vocabulary(torch.tensor([13]), 20))
    assert spots.position.tolist() == [1, 2]
    assert spots.tokens.tolist() == [[12, 13, 14], [13, 14, 0]]
    assert spots.counted.tolist() == [[True, True], [True, False]]
    assert spots.labels.tolist() == [[0, -1], [-1, -1]]


def test_padding_and_gaps_between_answers_are_not_counted() -> None:
    tokens = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 0, 0, 0, 0]]
    learned = [[0, 1, 1, 1, 0, 1, 1, 0], [0, 1, 1, 1, 1, 1, 1, 1]]
    spots = windows(batch(tokens, learned, [8, 4]), 3, Vocabulary.full(20))
    assert list(zip(spots.row.tolist(), spots.position.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (0, 4),
        (1, 0),
        (1, 1),
    ]
    assert spots.counted.tolist() == [
        [True, True, False],
        [True, False, False],
        [True, False, False],
        [True, True, False],
        [True, False, False],
    ]


def test_an_answer_of_one_token_has_no_window() -> None:
    spots = windows(batch([[1, 2, 3]], [[0, 0, 1]], [3]), 3, Vocabulary.full(20))
    assert spots.tokens.shape == (0, 4)
