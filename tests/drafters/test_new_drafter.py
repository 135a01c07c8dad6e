"""docs/new_drafter.md does what it says: one file and one line, or an entry point of another package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import draftune

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "new_drafter.md").read_text()
USE = """
import sys, torch
from draftune.decode.loop import Decoder
from draftune.decode.plain import PlainDecoder
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.tiny import tiny
from draftune.types import Request
name = sys.argv[1]
target = tiny()
drafter = DRAFTERS.load(name)().build(target.parts(), Vocabulary.full(64))
request = Request(id="a", prompt=(5, 6, 7), max_new_tokens=12)
drafted, plain = Decoder(target.runner(), drafter), PlainDecoder(target.runner())
assert drafted.generate([request])[0].tokens == plain.generate([request])[0].tokens
x = torch.randn(2, 5, 32, dtype=torch.float64)
assert drafter.recent.unroll(x[:, 0], x).shape == (2, 5, 32)
print(name, "from", type(drafter.recent).__module__, "|", DRAFTERS.entries()[name].summary)
"""


def block(mark: str) -> str:
    found = re.search(rf"<!-- {re.escape(mark)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"the page has no block marked {mark!r}"
    return found.group(1)


def use(name: str, path: str) -> str:
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", USE, name], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_file_and_one_line(tmp_path: Path) -> None:
    shutil.copytree(Path(draftune.__file__).parent, tmp_path / "src" / "draftune")
    (tmp_path / "src/draftune/drafters/fading.py").write_text(block("file: src/draftune/drafters/fading.py"))
    table = tmp_path / "src/draftune/drafters/table.py"
    line = block("line: src/draftune/drafters/table.py, in DRAFTERS")
    assert len(line.splitlines()) == 1
    table.write_text(table.read_text().replace('        "lookup"', line + '        "lookup"'))
    said = use("semiar-fading", str(tmp_path / "src"))
    assert said == "semiar-fading from draftune.drafters.fading | h_t and a fading average of the recent tokens"


def test_an_outside_package_needs_no_line_here(tmp_path: Path) -> None:
    (tmp_path / "my_drafters.py").write_text(block("file: src/draftune/drafters/fading.py"))
    info = tmp_path / "my_drafters-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-drafters\nVersion: 0.1\n")
    points = re.search(
        r'entry-points\."draftune.drafters"\]\n(\S+) = "(\S+)"', block("file: pyproject.toml of your package")
    )
    assert points
    (info / "entry_points.txt").write_text(f"[draftune.drafters]\n{points[1]} = {points[2]}\n")
    assert use(points[1], f"{tmp_path}{os.pathsep}{Path(draftune.__file__).parents[1]}") == (
        "my-fading from my_drafters | from my-drafters"
    )
