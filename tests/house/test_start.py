"""Nothing heavy is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "peft", "datasets", "accelerate", "matplotlib", "pandas", "numpy", "safetensors")

RUN = """
import sys
sys.argv = ["draftune", *{arguments!r}]
try:
    {action}
except SystemExit as leave:
    assert not leave.code, leave.code
print("loaded:", *sorted(name for name in {heavy!r} if name in sys.modules))
"""


def loaded(action: str, *arguments: str) -> str:
    """The heavy packages that a fresh interpreter holds after `action`."""
    code = RUN.format(arguments=list(arguments), action=action, heavy=HEAVY)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()[-1].removeprefix("loaded:").strip()


def test_the_package_is_light() -> None:
    assert loaded("import draftune") == ""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["list"], ["data", "--help"]]
    + [[verb, "--help"] for verb in ("tune", "generate", "chat", "bench", "check", "demo")],
    ids=" ".join,
)
def test_help_is_light(arguments: list[str]) -> None:
    assert loaded("import draftune.cli; draftune.cli.main()", *arguments) == ""


def test_heavy_packages_would_be_seen() -> None:
    assert loaded("import safetensors") == "safetensors"
