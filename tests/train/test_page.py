"""docs/training.md: its program runs, and its commands ask for settings that exist."""

from __future__ import annotations

import re
import shlex

import pytest

from draftune.cli.tune import configure
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_program_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "docs/training.md", "exec"), {})


@pytest.mark.parametrize(
    "assignment", re.findall(r"`?--set ([a-z][^\s`]+=[^\s`]+)", PAGE) + re.findall(r"`(\w+=\w+)`", PAGE)
)
def test_settings_exist(assignment: str) -> None:
    configure({"drafters": ("semiar-lstm",)}, [*shlex.split(assignment)])


def test_settings_were_found() -> None:
    assert len(re.findall(r"--set ", PAGE)) >= 3
