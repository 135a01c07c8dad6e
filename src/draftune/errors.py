"""One root exception; every kind says what was being done, what was met and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial
from typing import Any


class DraftuneError(Exception):
    """One sentence: what was being done, what was met, what to do.

    >>> raise DataError(doing="reading rows.jsonl", met="line 3 is not JSON", todo="fix or remove it")
    DataError: reading rows.jsonl: line 3 is not JSON; fix or remove it.
    """

    def __init__(self, *, doing: str, met: str, todo: str) -> None:
        super().__init__(f"{doing}: {met}; {todo}" + ("" if todo.endswith("?") else "."))
        self.doing, self.met, self.todo = doing, met, todo

    def __reduce__(self) -> tuple[Any, ...]:  # keyword-only arguments do not pickle by themselves
        return partial(type(self), doing=self.doing, met=self.met, todo=self.todo), ()

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])


class ConfigError(DraftuneError, ValueError):
    """A setting that is unknown, impossible, or cannot be honoured."""


class UnknownNameError(DraftuneError, LookupError):
    """A name that no table holds; the sentence offers the nearest one."""


class DataError(DraftuneError, ValueError):
    """Rows that cannot be read, or cannot teach anything."""


class TargetError(DraftuneError, ValueError):
    """A model, tokenizer or adapter that cannot be loaded or lacks what is needed."""


class MismatchError(DraftuneError, ValueError):
    """Parts that do not belong together, as a drafter and another target."""


class StorageError(DraftuneError, OSError):
    """Something could not be written or read back."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as "did you mean 'semiar-lstm'?", or the list of what is known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
