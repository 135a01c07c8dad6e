"""Folders that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftune import errors


@contextmanager
def replacing(folder: Path | str, *, doing: str) -> Iterator[Path]:
    """A fresh folder beside `folder` that takes its place at the end of a `with` block without error."""
    folder = Path(folder).absolute()
    with reporting(doing):
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        with reporting(doing):
            yield fresh
            fresh.chmod(0o755)
            _swap(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, folder: Path) -> None:
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        os.replace(folder, old / "old")
        os.replace(fresh, folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(fresh, folder)


@contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns what the file system and safetensors complain of into a StorageError."""
    from safetensors import SafetensorError

    try:
        yield
    except errors.DraftuneError:
        raise
    except (OSError, SafetensorError) as error:
        full = "No space left" in str(error)
        todo = "free some space and try again" if full else "check the folder and its permissions"
        raise errors.StorageError(doing=doing, met=str(error).rstrip("."), todo=todo) from error
