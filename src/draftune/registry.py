"""Names become objects: built-in lines and entry points of other packages, loaded when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from draftune import errors


@dataclass(frozen=True)
class Entry:
    """One line of a table: where the object lives ("module:attribute") and what it is, in a sentence."""

    path: str
    summary: str


class Registry:
    """A table of one kind of thing, open to other packages through the entry-point group.

    An outside package adds a line of its own with
    `[project.entry-points."draftune.drafters"]  my-drafter = "my_package:Config"`.
    """

    def __init__(self, kind: str, *, group: str, builtin: Mapping[str, Entry]) -> None:
        self.kind, self.group, self._builtin = kind, group, dict(builtin)

    def entries(self) -> dict[str, Entry]:
        """Every known name with its line, built-ins first; nothing is imported."""
        found = dict(self._builtin)
        for point in metadata.entry_points(group=self.group):
            package = point.dist.name if point.dist else "another package"
            found.setdefault(point.name, Entry(point.value, f"from {package}"))
        return found

    def load(self, name: str) -> Any:
        """The object behind `name`; raises UnknownNameError with the nearest known name."""
        entry = self._builtin.get(name) or self.entries().get(name)  # no other package is asked for a built-in
        if entry is None:
            raise errors.UnknownNameError(
                doing=f"looking up the {self.kind} {name!r}",
                met="no such name",
                todo=errors.nearest(name, self.entries()),
            )
        module, _, attribute = entry.path.partition(":")
        return getattr(importlib.import_module(module), attribute)
