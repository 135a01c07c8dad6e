"""A hub data set, or a folder laid out as one, as records; the network is touched here and nowhere else in data."""

from __future__ import annotations

from draftune import errors
from draftune.data.record import Record

_NAMES = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation"}
_NAMES |= {"dev": "validation", "test": "test"}


def read(source: str, config: str | None = None) -> dict[str, list[Record]]:
    """The records of every split of a hub data set ("org/name") or of a folder laid out as one.

    `config` names one of its configurations, as "main" of openai/gsm8k. Raises DataError where it cannot be had.
    """
    import datasets  # heavy, and only here

    try:
        found = datasets.load_dataset(source, config)
    except Exception as error:  # the library raises a dozen kinds, network faults among them
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise errors.DataError(
            doing=f"loading the hub data set {source!r}",
            met=reason,
            todo="check the name and the connection, or give a local file",
        ) from error
    splits: dict[str, list[Record]] = {}
    for name, rows in found.items():
        known = _NAMES.get(str(name))
        if known and known not in splits:
            splits[known] = [Record(source=known, number=i, fields=dict(row)) for i, row in enumerate(rows, start=1)]
    if not splits.get("train"):
        met = f"it has no train split (its splits are {', '.join(map(str, found))})"
        raise errors.DataError(doing=f"loading the hub data set {source!r}", met=met, todo="give a local file")
    return splits
