"""`lookup` copies what followed the latest earlier occurrence of the longest suffix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftune import errors
from draftune.drafters.lookup import LookupConfig, continuation


def test_the_longest_suffix_wins_over_a_later_shorter_one() -> None:
    assert continuation([1, 2, 3, 9, 2, 8, 1, 2], 2, longest=5, shortest=1) == [3, 9]
    assert continuation([1, 2, 3, 9, 2, 8, 1, 2], 2, longest=1, shortest=1) == [8, 1]


def test_nothing_is_copied_without_a_match_or_a_budget() -> None:
    assert continuation([1, 2, 3], 4, longest=5, shortest=1) == []
    assert continuation([1, 1], 0, longest=5, shortest=1) == []
    assert continuation([1], 3, longest=5, shortest=1) == []
    assert continuation([1, 2, 1], 3, longest=5, shortest=2) == []


@given(st.lists(st.integers(0, 3), max_size=25), st.integers(0, 6))
def test_a_copy_stands_right_after_an_occurrence_of_the_suffix(tokens: list[int], budget: int) -> None:
    copied = continuation(tokens, budget, longest=3, shortest=1)
    assert len(copied) <= budget
    if copied:
        joined = [[tokens[-1], *copied] == tokens[at : at + 1 + len(copied)] for at in range(len(tokens) - 1)]
        assert any(joined)


def test_impossible_lengths_are_refused() -> None:
    with pytest.raises(errors.ConfigError, match=r"building lookup: suffix lengths 3\.\.2; give 1 <= shortest"):
        LookupConfig(longest=2, shortest=3)
