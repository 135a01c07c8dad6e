"""Splits: which rows are learned and which are held out, decided by the files' names or by a seeded shuffle."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftune import errors
from draftune.data.record import SUFFIXES
from draftune.types import Row

_SHARES = {"test": 0.10, "validation": 0.05}  # in the order they are taken from the end
_SPLIT_FILE = re.compile(r"(train|validation|valid|val|dev|test)([-_.].*)?", re.IGNORECASE)
_CANONICAL = {"train": "train", "test": "test"}  # all other names of _SPLIT_FILE mean validation


def find(folder: Path) -> dict[str, list[Path]]:
    """The files of each split in `folder` by name: train.jsonl, val.json, test-00000-of-00002.parquet, ..."""
    splits: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _SPLIT_FILE.fullmatch(path.stem)
        if match and path.suffix in SUFFIXES:
            splits.setdefault(_CANONICAL.get(match[1].lower(), "validation"), []).append(path)
    for name, paths in splits.items():
        if len({path.suffix for path in paths}) > 1:
            met = f"several kinds of {name} files ({', '.join(path.name for path in paths)})"
            raise errors.DataError(doing=f"reading {folder}", met=met, todo="leave one kind")
    return splits


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """How held-out rows are chosen: the seed of the shuffle, and the most rows kept of each split."""

    seed: int = 0
    validation: int = 200
    test: int = 200

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            if getattr(self, name) < 1:
                met = f"{name} = {getattr(self, name)}"
                raise errors.ConfigError(doing="holding rows out", met=met, todo="hold out at least one row")


def complete(splits: Mapping[str, list[Row]], holdout: Holdout, doing: str) -> tuple[dict[str, list[Row]], str]:
    """The three splits, those that are missing taken from a shuffled train split, and a sentence on how ("" if none).

    Test is the last 10 %, validation the 5 % before it; published splits stay in their order. Of ten rows without
    splits the last of the shuffled ten is the test and the one before it the validation. Of what is held out the
    first `holdout.validation` and `holdout.test` rows are kept; the train rows are the same whatever these numbers.
    """
    made = {name: list(splits.get(name, [])) for name in _SHARES}
    train, missing = list(splits["train"]), [name for name in _SHARES if not made[name]]
    if missing:
        random.Random(holdout.seed).shuffle(train)
    for name in missing:
        num_held = max(1, round(_SHARES[name] * len(splits["train"])))
        train, made[name] = train[:-num_held], train[-num_held:]
    if not train or not all(made.values()):
        met = f"{len(splits['train'])} rows are too few to hold some out"
        raise errors.DataError(doing=doing, met=met, todo="give at least three rows, or a file for each split")
    kept = {name: rows[: getattr(holdout, name)] for name, rows in made.items()}
    order = f"shuffled with seed {holdout.seed}"
    how = f"{' and '.join(missing)} rows are taken from the end of the train rows, {order}" if missing else ""
    return {"train": train, **kept}, how


def repeats(splits: Mapping[str, Sequence[Row]]) -> list[str]:
    """A sentence for each held-out split some of whose rows are train rows too, and for repeats within train."""
    train = {row.messages for row in splits["train"]}
    found = []
    if num_repeats := len(splits["train"]) - len(train):
        found.append(f"{num_repeats} train rows repeat an earlier one")
    for name in _SHARES:
        same = [row.id for row in splits[name] if row.messages in train]
        if same:
            found.append(f"{len(same)} of {len(splits[name])} {name} rows are train rows too: {', '.join(same[:3])}")
    return found
