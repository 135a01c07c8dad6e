"""A task: rows to learn from, rows held out, and how an answer is scored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, get_args

from draftune import errors
from draftune.data.metric import Metric
from draftune.types import Row

SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[str, ...] = get_args(SplitName)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Three splits and a metric. `notes` say what a reader of the results must know, one sentence each."""

    name: str
    train: list[Row]
    validation: list[Row]
    test: list[Row]
    metric: Metric
    notes: tuple[str, ...] = ()

    def split(self, name: str) -> list[Row]:
        """The rows of one split; raises UnknownNameError for another name."""
        if name not in SPLITS:
            raise errors.UnknownNameError(
                doing=f"opening task {self.name!r}", met=f"no split {name!r}", todo=errors.nearest(name, SPLITS)
            )
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]

    def fingerprint(self) -> str:
        """A hash of every conversation of every split, in order: two runs with the same hash saw the same data."""
        digest = hashlib.sha256()
        for name in SPLITS:
            for row in self.split(name):
                turns = [(message.role, message.content) for message in row.messages]
                digest.update(json.dumps([name, turns]).encode())
        return digest.hexdigest()[:16]
