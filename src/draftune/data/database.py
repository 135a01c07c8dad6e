"""A database of one row's schema, in memory, on which a stranger's SQL may be run without harm."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_NUMERIC = ("abs", "avg", "count", "max", "min", "rank", "round", "row_number", "sum", "total")
_TEXTUAL = ("glob", "group_concat", "instr", "length", "like", "lower", "ltrim", "rtrim", "substr", "trim", "upper")
_OTHER = ("coalesce", "date", "datetime", "ifnull", "iif", "julianday", "nullif", "replace", "strftime", "time")
_FUNCTIONS = {*_NUMERIC, *_TEXTUAL, *_OTHER}
_MAX_TEXT = 10_000  # characters of a statement or value
_MAX_ROWS = 10_000
_TICK = 1_000  # instructions of sqlite's machine between two looks at the limits
_MAX_TICKS = 2_000  # two million instructions: a join over the small tables here needs a few thousand


class Database:
    """Tables made by a trusted `script`; afterwards nothing but reading is permitted.

    Statements that write, attach files, set pragmas, load extensions, or do not end in time are refused.
    """

    def __init__(self, script: str, *, max_seconds: float = 2.0) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.executescript(script)
        self._max_seconds = max_seconds
        self._ticks, self._deadline = 0, 0.0
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_TEXT)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(self._tick, _TICK)

    def query(self, sql: str) -> list[tuple[Any, ...]] | None:
        """The rows of one SELECT in their order, or None where it is refused, wrong, or too long in the running."""
        self._ticks, self._deadline = 0, time.monotonic() + self._max_seconds
        try:
            rows = self._connection.execute(sql).fetchmany(_MAX_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError):  # ValueError: a NUL or lone surrogate
            return None
        return rows if len(rows) <= _MAX_ROWS else None

    def close(self) -> None:
        """Forget the tables."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tick(self) -> int:
        self._ticks += 1
        return int(self._ticks > _MAX_TICKS or time.monotonic() > self._deadline)


def _authorize(action: int, _first: str | None, second: str | None, *_: object) -> int:
    allowed = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def same(left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]], *, ordered: bool) -> bool:
    """True where two results hold the same rows, in the same order if `ordered`; 2 equals 2.0, floats to 6 digits."""
    left_rows, right_rows = ([tuple(map(_value, row)) for row in rows] for rows in (left, right))
    return left_rows == right_rows if ordered else Counter(left_rows) == Counter(right_rows)


def _value(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
