"""The rows that a bundle is checked and measured on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from draftune import errors
from draftune.cli import desk

if TYPE_CHECKING:
    from draftune.data import Task
    from draftune.export.bundle import Card


def held_out(card: Card, spec: str | None, fields: Sequence[str] | None = None) -> Task:
    """The task named by `spec`, else the bundle's own; says so where its rows have changed since it was tuned.

    `fields` tells which field of the rows of `spec` means what, as in `mapping`.
    """
    import dataclasses

    from draftune.data import open_task

    if spec is not None:
        return open_task(spec, mapping=mapping(fields) or None)
    if fields:
        met, todo = "--field without --task", "name the rows by --task, or leave it out: the bundle knows its own"
        raise errors.ConfigError(doing="choosing the rows", met=met, todo=todo)
    opened = open_task(card.task_place, mapping=dict(card.fields) or None)
    task = dataclasses.replace(opened, name=card.task)
    if task.fingerprint() != card.task_fingerprint:
        desk.note(f"the rows of {card.task} have changed since the bundle was made: some may have been learned")
    return task


def mapping(fields: Sequence[str] | None) -> dict[str, str]:
    """Which field means what, from "prompt=question" and the like. Raises ConfigError for one without a "="."""
    found = {}
    for assignment in fields or ():
        meaning, equals, name = assignment.partition("=")
        if not equals:
            met, todo = f"{assignment!r} has no '='", "write prompt=FIELD and answer=FIELD"
            raise errors.ConfigError(doing="reading a field mapping", met=met, todo=todo)
        found[meaning.strip()] = name.strip()
    return found
