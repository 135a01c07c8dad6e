"""The names that commands understand are listed from the tables themselves."""

from __future__ import annotations

from draftune import __version__
from draftune.data.open import TASKS
from draftune.drafters.table import DRAFTERS
from draftune.target.models import MODELS
from tests.cli.conftest import draftune


def test_list_shows_every_table() -> None:
    said = draftune("list")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    wanted = []
    for title, registry in (("drafters", DRAFTERS), ("tasks", TASKS), ("models", MODELS)):
        wanted += [title, *(f"{name} {entry.summary}" for name, entry in registry.entries().items())]
    assert [" ".join(line.split()) for line in lines] == wanted


def test_version() -> None:
    said = draftune("--version")
    assert (said.code, said.out, said.err) == (0, f"draftune {__version__}\n", "")


def test_no_command_shows_help() -> None:
    said = draftune()
    assert "tune" in said.out + said.err
    assert said.code == 2
