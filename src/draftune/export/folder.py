"""A folder that is replaced as a whole: it is the old one or the new one, never half of each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which takes the place of `folder` when the block ends without an error.

    After an error it is removed and `folder` is what it was. Whatever the moment of a kill, `settle` finds a whole one.
    """
    settle(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial, previous = _beside(folder, "partial"), _beside(folder, "previous")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        _flush(partial)
        if folder.exists():
            folder.rename(previous)
        partial.rename(folder)
    except BaseException:
        settle(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def settle(folder: Path) -> None:
    """Finish what a killed `replacing` left: put the previous folder back where there is no new one."""
    previous = _beside(folder, "previous")
    if not previous.exists():
        return
    if folder.exists():
        shutil.rmtree(previous, ignore_errors=True)
    else:
        previous.rename(folder)


def _beside(folder: Path, kind: str) -> Path:
    folder = folder.absolute()
    return folder.with_name(f"{folder.name}.{kind}")


def _flush(folder: Path) -> None:
    """Ask the system to put every byte on the disk: a rename may overtake what it has not yet written."""
    if os.name == "nt":  # folders cannot be opened there
        return
    for path in [*folder.rglob("*"), folder, folder.absolute().parent]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
