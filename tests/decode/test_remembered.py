"""A machine is measured once for each pair of target and drafter."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftune.decode import remembered
from draftune.decode.cost import Costs

COSTS = Costs(verify_s=(1.0, 1.25), begin_s=0.5, draft_s=0.125, plain_other_s=0.0625, other_s=0.25)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(remembered, "folder", lambda: tmp_path / "costs")
    return tmp_path / "costs"


def never() -> Costs:
    raise AssertionError("it was measured before")


def test_costs_are_measured_once(folder: Path) -> None:
    assert remembered.remembered(("a", 1), lambda: COSTS) == COSTS
    assert remembered.remembered(("a", 1), never) == COSTS
    with pytest.raises(AssertionError):
        remembered.remembered(("a", 2), never)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"verify_s": [1.0]}', '{"verify_s": "x"}'])
def test_a_file_that_is_broken_is_made_again(folder: Path, text: str) -> None:
    remembered.remembered(("a",), lambda: COSTS)
    (path,) = folder.iterdir()
    path.write_text(text)
    assert remembered.remembered(("a",), lambda: COSTS) == COSTS
    assert remembered.remembered(("a",), never) == COSTS


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(folder: Path) -> None:
    folder.touch()
    assert remembered.remembered(("a",), lambda: COSTS) == COSTS
