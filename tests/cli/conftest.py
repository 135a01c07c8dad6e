"""A tiny model, a few rows and the bundle made of them, all through the command line."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from draftune.cli import app

QUICK = ("eval_rows=2", "nll_rows=2", "evaluations=1", "eval_max_new_tokens=4", "batch_size=4")
THINGS, FIELDS = ["pets", "cars", "birds", "ships", "songs", "teas"], ["id", "name", "age", "color", "year", "size"]


@dataclass(frozen=True)
class Said:
    """What a command left."""

    code: int
    out: str
    err: str


def draftune(*arguments: str | Path, input: str | None = None) -> Said:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


def write_rows(path: Path, num_rows: int = 60, seed: int = 0) -> Path:
    """Questions about tables and their answers, as JSON lines."""
    dice, lines = random.Random(seed), []
    for _ in range(num_rows):
        thing, (first, second) = dice.choice(THINGS), dice.sample(FIELDS, 2)
        prompt = f"table {thing} ({first}, {second}); what is the {first}?"
        lines.append(json.dumps({"prompt": prompt, "completion": f"select {first} from {thing}"}) + "\n")
    path.write_text("".join(lines))
    return path


def tune(model: Path, rows: Path, out: Path, *more: str | Path, settings: Sequence[str] = QUICK) -> Said:
    """`draftune tune`, as short as can be."""
    sets = [part for setting in settings for part in ("--set", setting)]
    return draftune("tune", model, rows, "--out", out, "--epochs", 1, "--drafter-epochs", 1, "--dtype", "float32",
                    *sets, *more)  # fmt: skip


@pytest.fixture(autouse=True, scope="session")
def cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Costs and packed weights of tiny models do not go to the user's cache."""
    from draftune.decode import remembered
    from draftune.target import image

    costs, packed = tmp_path_factory.mktemp("costs"), tmp_path_factory.mktemp("packed")
    remembered.folder, image.folder = lambda: costs, lambda: packed


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, rows and a bundle of two drafters. Only read it."""
    from draftune.target.tiny import save_tiny

    folder = tmp_path_factory.mktemp("home")
    save_tiny(folder / "model", dtype="float32")
    write_rows(folder / "rows.jsonl")
    said = tune(
        folder / "model", folder / "rows.jsonl", folder / "bundle", "--drafter", "semiar-lstm", "--drafter", "medusa"
    )
    assert said.code == 0, said.err
    assert said.out == f"{folder / 'bundle'}\n"
    assert sorted(os.listdir(folder)) == ["bundle", "model", "rows.jsonl"], "the checkpoints are gone"
    return folder


@pytest.fixture
def bundle(home: Path) -> Path:
    """The bundle. Only read it."""
    return home / "bundle"
