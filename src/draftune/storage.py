"""Files and folders that appear whole or not at all, whatever the moment of a kill or of a full disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from draftune import errors

PARTIAL = ".partial-"  # being written
PREVIOUS = ".previous-"  # to be put back where its successor never came
DOOMED = ".doomed-"  # being removed


def cache_folder() -> Path:
    """Where what was fetched or built once is kept for all runs: $DRAFTUNE_CACHE, or the user's cache."""
    import platformdirs

    return Path(os.environ.get("DRAFTUNE_CACHE") or platformdirs.user_cache_dir("draftune")).expanduser()


def write(path: Path, content: bytes, *, doing: str) -> None:
    """Replace one file. Raises StorageError, the old file untouched, where it cannot be written."""
    partial = path.with_name(PARTIAL + path.name)
    with reporting(doing):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
            _flush(partial)
            os.replace(partial, path)
            _flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_folder(folder: Path, files: Mapping[str, bytes], *, doing: str) -> None:
    """Make or replace a folder with these files. Raises StorageError, the old folder untouched."""
    with replacing(folder, doing=doing) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)


@contextmanager
def replacing(folder: Path | str, *, doing: str) -> Iterator[Path]:
    """An empty folder to fill, which takes the place of `folder` when the block ends without an error.

    After an error it is removed and `folder` is what it was. After a kill, `settle` finds the old one or the new one.
    Raises StorageError for what the file system refuses.
    """
    folder = Path(folder).absolute()
    partial, previous = folder.with_name(PARTIAL + folder.name), folder.with_name(PREVIOUS + folder.name)
    with reporting(doing):
        settle(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            for path in partial.rglob("*"):
                _flush(path)
            _flush(partial)
            if folder.exists():
                folder.rename(previous)
            partial.rename(folder)
            _flush(folder.parent)
        except BaseException:
            settle(folder)
            shutil.rmtree(partial, ignore_errors=True)
            raise
    shutil.rmtree(previous, ignore_errors=True)


def settle(folder: Path) -> None:
    """Finish what a killed `replacing` left: the previous folder comes back where there is no new one."""
    folder = folder.absolute()
    previous = folder.with_name(PREVIOUS + folder.name)
    if not previous.exists():
        return
    if folder.exists():
        shutil.rmtree(previous, ignore_errors=True)
    else:
        previous.rename(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that a kill half-way leaves no folder of its name."""
    if folder.exists():
        doomed = folder.with_name(DOOMED + folder.name)
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed writes and removals left in a folder."""
    for path in folder.glob(".*"):
        if path.name.startswith((PARTIAL, DOOMED)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns what the file system and safetensors complain of into a StorageError."""
    try:
        yield
    except errors.DraftuneError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__name__ != "SafetensorError":
            raise
        met = getattr(error, "strerror", None) or str(error).rstrip(".")
        full = any(sign in str(error) for sign in ("No space left", "File too large", "quota"))
        todo = "free some space and try again" if full else "check the folder and its permissions"
        raise errors.StorageError(doing=doing, met=met, todo=f"{todo}; what was saved before is intact") from error


def _flush(path: Path) -> None:
    """Ask the system to put every byte on the disk: a rename may overtake what it has not yet written."""
    if os.name == "nt" and path.is_dir():  # folders cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
