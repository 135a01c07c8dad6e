"""A folder is the old one or the new one, whatever happens between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from draftune import errors, storage


def fill(folder: Path, text: str) -> None:
    """Make `folder` hold one file of `text`."""
    with storage.replacing(folder, doing="filling") as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "file").write_text(text)


def fill_half(folder: Path) -> None:
    """Begin to fill `folder` and fail."""
    with storage.replacing(folder, doing="filling") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError("half way")


def content(folder: Path) -> str:
    return (folder / "inner" / "file").read_text()


def test_new_then_replaced(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "folder"
    fill(place, "one")
    fill(place, "two")
    assert content(place) == "two"
    assert [path.name for path in place.parent.iterdir()] == ["folder"]


def test_an_error_leaves_the_old_one_and_no_litter(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    fill(place, "one")
    with pytest.raises(RuntimeError, match="half way"):
        fill_half(place)
    assert content(place) == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_old_one_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second rename fails: the first is undone."""
    place = tmp_path / "folder"
    fill(place, "one")
    renames, rename = [], Path.rename

    def second_fails(self: Path, target: Path) -> Path:
        renames.append(target)
        if len(renames) == 2:
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(errors.StorageError, match="filling: no; check the folder"):
        fill(place, "two")
    assert content(place) == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


KILLED = """
import os, signal, sys
from pathlib import Path
from draftune import storage
place, moment = Path(sys.argv[1]), int(sys.argv[2])
calls, rename = [], Path.rename
def dying(self, target):
    if len(calls) == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(target)
    return rename(self, target)
Path.rename = dying
with storage.replacing(place, doing="filling") as partial:
    (partial / "inner").mkdir()
    (partial / "inner" / "file").write_text("two")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("moment", "left"), [(0, "one"), (1, "one"), (2, "two")], ids=["before", "between", "after"])
def test_killed(tmp_path: Path, moment: int, left: str) -> None:
    """Killed before the renames, between them, and after: the next look finds a whole folder, the next write works."""
    place = tmp_path / "folder"
    fill(place, "one")
    dead = subprocess.run([sys.executable, "-c", KILLED, str(place), str(moment)], check=False, env={**os.environ})
    assert dead.returncode == -signal.SIGKILL
    storage.settle(place)
    assert content(place) == left
    fill(place, "three")
    assert content(place) == "three"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
