"""What README.md tells a reader to type works, in its order: here with a tiny model in place of the named one."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from draftune.target.tiny import save_tiny
from tests.cli.conftest import QUICK, draftune, write_rows
from tests.conftest import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"<!-- run(?:: (?P<file>\S+))? -->\n```\w+\n(?P<body>.*?)```", re.DOTALL)
TUNE = "draftune tune smollm2-135m rows.jsonl"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the README's rows, more in their shape, and a tiny model."""
    monkeypatch.chdir(tmp_path)
    save_tiny(tmp_path / "model", dtype="float32")
    for block in BLOCK.finditer(TEXT):
        if block["file"]:
            more = write_rows(tmp_path / "more.jsonl", 40).read_text()
            (tmp_path / block["file"]).write_text(block["body"] + more)
    return tmp_path


def commands() -> list[str]:
    """The command lines of every sh block that is marked to be run."""
    blocks = [block["body"] for block in BLOCK.finditer(TEXT) if not block["file"]]
    return [line for body in blocks for line in body.splitlines() if line.strip()]


def test_rows_are_rows() -> None:
    [rows] = [block["body"] for block in BLOCK.finditer(TEXT) if block["file"] == "rows.jsonl"]
    assert all(set(json.loads(line)) == {"prompt", "completion"} for line in rows.splitlines())


def test_every_command_is_shown() -> None:
    """The quick start goes from rows to proof."""
    verbs = [line.split()[1] for line in commands()]
    assert verbs == ["data", "tune", "generate", "check", "bench"]
    assert any(line.startswith(TUNE) for line in commands())


def shortened(words: list[str]) -> list[str]:
    """The command with the tiny model, and with as few rows, prompts and passes as can be."""
    words = ["./model" if word == "smollm2-135m" else word for word in words]
    more = {
        "tune": ["--epochs", "1", "--drafter-epochs", "1", "--dtype", "float32"],
        "generate": ["--max-new-tokens", "8", "--dtype", "float32"],
        "check": ["--prompts", "1", "--max-new-tokens", "8", "--dtype", "float32"],
        "bench": ["--prompts", "1", "--max-new-tokens", "8", "--dtype", "float32"],
    }
    sets = [part for setting in QUICK for part in ("--set", setting)]
    return [*words, *more.get(words[0], []), *(sets if words[0] == "tune" else [])]


def test_the_quick_start_runs(desk: Path) -> None:
    said = {}
    for line in commands():
        program, verb, *rest = shlex.split(line, comments=True)
        assert program == "draftune"
        said[verb] = draftune(*shortened([verb, *rest]))
        assert said[verb].code == 0, said[verb].err
    assert "tokens" in said["data"].out
    assert said["tune"].out == "bundle\n"
    assert said["generate"].out.strip()
    assert ": identical: 1 answers" in said["check"].out
    assert (desk / "bundle" / "report" / "report.html").is_file()
    assert set(json.loads(said["bench"].out.splitlines()[-1])) > {"speedup_total", "tau"}


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs/index.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"
