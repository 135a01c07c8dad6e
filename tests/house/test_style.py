"""The few rules of style that a machine can keep."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
TEXTS = sorted(
    path
    for folder in ("src", "tests", "docs", "benchmarks", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
    and path.suffix in {".py", ".md", ".cpp", ".h", ".jinja", ".toml", ".sh", ""}
    and "egg-info" not in str(path)
) + [path for path in ROOT.iterdir() if path.is_file()]
MAX_LINES = 400
FOREIGN = re.compile(r"(?<![\w.])/(work|tmp|root|opt|home)/\w|pypi\.org|pythonhosted|download\.pytorch")


def name(path: Path) -> str:
    """The path as seen from the project's root."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_source_file(path: Path) -> None:
    code = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(code)), "says in its first line what it is"
    assert len(code.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", [path for path in TEXTS if path != Path(__file__)], ids=name)
def test_no_machine_is_named(path: Path) -> None:
    """Nothing tells of one machine's folders or of a registry's hosts: it would hold nowhere else."""
    met = FOREIGN.search(path.read_text(encoding="utf-8", errors="replace"))
    assert met is None, f"{name(path)} names {met and met.group()}"
