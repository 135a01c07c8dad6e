"""What a fresh machine needs is written down, once and rightly."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import draftune
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins() -> dict[str, str]:
    """Version by package, as constraints.txt has them."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def needed() -> set[str]:
    """Every package that `.[dev]` draws in on this machine, directly or not."""
    todo = [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]
    found: dict[str, set[str]] = {}
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), {"", *requirement.extras}
        new = extras - found.setdefault(name, set())
        found[name] |= new
        inner = map(Requirement, metadata.requires(name) or []) if new else []
        todo += [one for one in inner if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in new)]
    return set(found) - {"draftune"}


def test_every_dependency_is_pinned() -> None:
    assert needed() - set(pins()) == set()


def test_every_pin_is_needed() -> None:
    assert set(pins()) - needed() == set()


def test_pins_satisfy_the_project() -> None:
    for line in PROJECT["dependencies"]:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)], prereleases=True), line


def test_pins_name_no_build() -> None:
    assert "+" not in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_one_version() -> None:
    assert PROJECT["version"] == draftune.__version__


def test_licence_is_the_whole_text() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text) > 11_000


def test_ci_runs_the_tests() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert "make test" in script.read_text(encoding="utf-8")


def test_make_sets_up_before_it_runs() -> None:
    """Both doors, on a machine where nothing is set up, make the environment first."""
    for target in ("demo", "test"):
        command = ["make", "--dry-run", "--always-make", target]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        setup, work = said.index("torch=="), said.index("draftune demo" if target == "demo" else "pytest")
        assert said.index("-m venv") < setup < said.index("[dev]") < work


def test_everything_but_code_is_packed_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["draftune"]
    root = ROOT / "src" / "draftune"
    kept = {path for pattern in patterns for path in root.glob(pattern)}
    others = {path for path in root.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert others - kept == set()
    assert {"kernel.cpp", "report.html.jinja"} <= {path.name for path in kept}


def test_make_and_constraints_agree_on_torch() -> None:
    wanted = re.findall(r"torch==(\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert wanted == [pins()["torch"]]
