"""The import law holds, and it bites."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

BREACHES = {  # file that is added -> what it must not import
    "data and target know no other room": ("data/breach.py", "draftune.target.base"),
    "drafters know of the target its base alone, and never decode or train": (
        "drafters/breach.py",
        "draftune.decode.loop",
    ),
    "decode knows the bases of target and drafters, and never a named drafter": (
        "decode/breach.py",
        "draftune.drafters.presets",
    ),
    "train knows data, target, drafters and decode": ("train/breach.py", "draftune.bench.config"),
    "bench knows decode, data, target, train and drafters": ("bench/breach.py", "draftune.export.bundle"),
    "serve knows decode, target, train and the counters of bench": ("serve/breach.py", "draftune.export.bundle"),
    "export knows drafters and target": ("export/breach.py", "draftune.decode.loop"),
    "nothing imports cli": ("recipes/breach.py", "draftune.cli.desk"),
    "the drafters are reached through their table, their store and their base": (
        "cli/breach.py",
        "draftune.drafters.presets",
    ),
}


def lint(folder: Path) -> str:
    """What import-linter says of the sources and the law in `folder`."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "400"}
    found = subprocess.run(
        [*command, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "Contracts:" in found.stdout, found.stdout + found.stderr
    return found.stdout


def verdicts(said: str) -> dict[str, str]:
    """KEPT or BROKEN by contract."""
    lines = [line.split(" (")[0].strip() for line in said.splitlines()]
    return {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in lines if line.endswith(("KEPT", "BROKEN"))}


def test_the_law_is_kept() -> None:
    said = verdicts(lint(ROOT))
    assert set(said) >= set(BREACHES)
    assert [name for name, verdict in said.items() if verdict != "KEPT"] == []


@pytest.fixture(scope="module")
def breached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The verdicts after a file in every room has broken its law, inside a function where it is easily overlooked."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", folder)
    for place, module in BREACHES.values():
        (folder / "src/draftune" / place).write_text(f"def use():\n    import {module}\n    return {module}\n")
    return verdicts(lint(folder))


@pytest.mark.parametrize("contract", BREACHES)
def test_a_breach_is_found(breached: dict[str, str], contract: str) -> None:
    assert breached[contract] == "BROKEN"
