"""A record: the fields of one row as a file or a hub data set holds them, before they are a conversation."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftune import errors

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One row's fields and where they stand: `rows.jsonl:18` is line 18 of the file, or row 18 of a list."""

    source: str  # file name, or split of a hub data set
    number: int  # 1-based: the line in .jsonl, the row elsewhere
    fields: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The row's id in every later stage."""
        return f"{self.source}:{self.number}"

    def error(self, met: str, todo: str) -> errors.DataError:
        """A DataError that names this row."""
        return errors.DataError(doing=f"reading row {self.number} of {self.source}", met=met, todo=todo)


def read(path: Path) -> list[Record]:
    """The records of one .jsonl, .json, .csv or .parquet file.

    Raises DataError where the file is missing, empty or damaged; the sentence names the line.
    """
    doing = f"reading {path}"
    if not path.is_file():
        raise errors.DataError(doing=doing, met="there is no such file", todo="check the path")
    if path.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise errors.DataError(doing=doing, met=f"the suffix {path.suffix!r} is unknown", todo=f"give one of {known}")
    if path.suffix == ".parquet":
        numbered = list(enumerate(_parquet(path), start=1))
    else:
        text = _text(path)
        readers = {".jsonl": _json_lines, ".json": _json, ".csv": _csv}
        numbered = readers[path.suffix](text, doing)
    if not numbered:
        raise errors.DataError(doing=doing, met="the file holds no rows", todo="give a file with at least one row")
    return [Record(source=path.name, number=number, fields=fields) for number, fields in numbered]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        met = f"byte {error.start} is not UTF-8"
        raise errors.DataError(doing=f"reading {path}", met=met, todo="save the file as UTF-8") from error


def _json_lines(text: str, doing: str) -> list[tuple[int, dict[str, Any]]]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):  # not splitlines: U+2028 may stand inside a string
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            met = f"line {number} is not JSON ({error})"
            raise errors.DataError(doing=doing, met=met, todo="correct the line or remove it") from error
        rows.append((number, _object(row, f"line {number}", doing)))
    return rows


def _json(text: str, doing: str) -> list[tuple[int, dict[str, Any]]]:
    """Rows of a list, of {"data": list} as some exporters write, or of one object a line under the wrong suffix."""
    if not text.strip():
        return []
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _json_lines(text, doing)
        met = f"line {error.lineno} is not JSON ({error.msg}, column {error.colno})"
        raise errors.DataError(doing=doing, met=met, todo="correct the file") from error
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(found) == 1 and lists else [found]
    if not isinstance(found, list):
        raise errors.DataError(doing=doing, met="it holds no list of rows", todo="give a list of JSON objects")
    return [(number, _object(row, f"row {number}", doing)) for number, row in enumerate(found, start=1)]


def _object(row: Any, where: str, doing: str) -> dict[str, Any]:
    if isinstance(row, dict):
        return row
    raise errors.DataError(doing=doing, met=f"{where} is not a JSON object", todo="give one object per row")


def _csv(text: str, doing: str) -> list[tuple[int, dict[str, Any]]]:
    rows = []
    for number, row in enumerate(_csv_rows(text, doing), start=1):
        if None in row or None in row.values():
            met = f"row {number} has another number of columns than the header"
            raise errors.DataError(doing=doing, met=met, todo="quote its commas or correct the row")
        rows.append((number, dict(row)))
    return rows


def _csv_rows(text: str, doing: str) -> Iterator[dict[str, Any]]:
    try:
        yield from csv.DictReader(io.StringIO(text, newline=""))
    except csv.Error as error:
        raise errors.DataError(doing=doing, met=f"it is not CSV ({error})", todo="save it again, or as JSON") from error


def _parquet(path: Path) -> Iterable[dict[str, Any]]:
    import pyarrow  # heavy, and only here
    from pyarrow import parquet

    try:
        return parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        met = f"it is not a whole parquet file ({error})"
        raise errors.DataError(doing=f"reading {path}", met=met, todo="write the file again") from error
