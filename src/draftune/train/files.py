"""Files and folders that appear whole or not at all, whatever the moment of a kill."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from draftune import errors

PARTIAL = ".partial-"  # being written
DOOMED = ".doomed-"  # being removed


def write(path: Path, content: bytes, *, doing: str) -> None:
    """Replace one file. Raises StorageError, the old file untouched, where it cannot be written."""
    partial = path.with_name(PARTIAL + path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_through(partial, content)
        os.replace(partial, path)
        _flush_folder(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise refusal(error, doing, len(content)) from error


def write_folder(folder: Path, files: Mapping[str, bytes], *, doing: str) -> None:
    """Make a new folder with these files. Raises StorageError, leaving nothing behind, where it cannot be written."""
    partial = folder.with_name(PARTIAL + folder.name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for name, content in files.items():
            _write_through(partial / name, content)
        _flush_folder(partial)
        os.rename(partial, folder)
        _flush_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise refusal(error, doing, sum(map(len, files.values()))) from error


def remove_folder(folder: Path) -> None:
    """Remove a folder so that a kill half-way leaves no folder of its name."""
    if folder.exists():
        doomed = folder.with_name(DOOMED + folder.name)
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(folder, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed writes and removals left in a folder."""
    for path in folder.glob(".*"):
        if path.name.startswith((PARTIAL, DOOMED)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def refusal(error: OSError, doing: str, num_bytes: int) -> errors.StorageError:
    """The error of a write that failed."""
    return errors.StorageError(
        doing=doing,
        met=f"{error.strerror or error} while writing {num_bytes / 1e6:.1f} MB",
        todo="free some space, then resume; what was saved before is intact",
    )


def _write_through(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
