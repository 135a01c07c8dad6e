"""The records of a run, kept in memory and appended to a file as they come."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from draftune import storage

Record = dict[str, Any]


class History:
    """One JSON object a line: `kind` "step", "evaluation" or "answers", `stage`, `step`, and figures."""

    def __init__(self, path: Path) -> None:
        """Start empty, replacing what the file held: a resumed run brings its records along in its checkpoints."""
        self.path = path
        self.records: list[Record] = []
        self.extend([])

    def extend(self, records: list[Record]) -> None:
        """Add records that were saved before, and write the file anew."""
        self.records += records
        text = "".join(json.dumps(record) + "\n" for record in self.records)
        storage.write(self.path, text.encode(), doing=_doing(self.path))

    def add(self, record: Record) -> None:
        """Append one record with one write. Raises StorageError where it cannot be written."""
        self.records.append(record)
        line = (json.dumps(record) + "\n").encode()
        with storage.reporting(_doing(self.path)), open(self.path, "ab", buffering=0) as file:
            file.write(line)
            if record["kind"] == "evaluation":
                os.fsync(file.fileno())

    def of(self, stage: str) -> list[Record]:
        """The records of one stage."""
        return [record for record in self.records if record["stage"] == stage]


def _doing(path: Path) -> str:
    return f"writing the history {path}"
