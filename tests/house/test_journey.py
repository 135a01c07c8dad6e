"""docs/journey.md follows one row through the house, and every step of it is true."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "journey.md"


def test_the_journey_is_true() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 30
    assert result.failed == 0
