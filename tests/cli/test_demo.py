"""The demo walks the whole road; here with a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftune.cli import root
from draftune.recipes import demo as recipe
from draftune.target.tiny import save_tiny
from tests.cli.conftest import draftune


def test_demo(home: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    save_tiny(model, dtype="float32", num_hidden_layers=1)
    said = draftune("demo", "--model", model, "--task", home / "rows.jsonl", "--out", tmp_path / "demo")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[-1] == f"report: {tmp_path / 'demo' / 'report' / 'report.html'}"
    assert [line.split(":")[0:2] for line in lines[-3:-1]] == [[name, " identical"] for name in recipe.DRAFTERS]
    metrics = json.loads((tmp_path / "demo" / "report" / "metrics.json").read_text())
    assert set(metrics["drafted"]) == set(recipe.DRAFTERS)
    assert metrics["plain"]["num_tokens"] > 0
    assert "user: table " in said.out
    assert "assistant: " in said.out
    assert [line for line in said.err.splitlines() if line[:2] in ("1/", "2/", "3/", "4/")] == [
        f"1/4 tuning {model} on {home / 'rows.jsonl'}, then {' and '.join(recipe.DRAFTERS)} for it",
        "2/4 decoding the same prompts plainly and with each drafter",
        "3/4 answering a question with semiar-lstm",
        "4/4 comparing every token with plain decoding",
    ]


def test_the_demo_without_arguments_is_what_is_promised() -> None:
    assert (recipe.MODEL, recipe.TASK) == ("smollm2-135m", "builtin:sql")
    assert recipe.DRAFTERS == ("semiar-lstm", "medusa")
    assert "demo" in [command.name or command.callback.__name__ for command in root.app.registered_commands]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo_as_a_newcomer_sees_it(tmp_path: Path) -> None:
    """The real small model, fetched if need be: tuned, drafted for, unchanged, and measured."""
    said = draftune("demo", "--out", tmp_path / "demo")
    assert said.code == 0, said.err
    for name in recipe.DRAFTERS:
        assert f"\n{name}: identical: " in said.out
    metrics = json.loads((tmp_path / "demo" / "report" / "metrics.json").read_text())
    assert all(decoded["acceptance"]["tau"] > 1 for decoded in metrics["drafted"].values())
    summary = json.loads((tmp_path / "demo" / "run.json").read_text())["summary"]
    assert summary["acceptance"]["semiar-lstm"]["tau"] > summary["acceptance"]["medusa"]["tau"]
    assert summary["nll"]["tuned"] < summary["nll"]["base"] / 2
