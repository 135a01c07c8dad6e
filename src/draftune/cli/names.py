"""`draftune list`: every name that a command understands."""

from __future__ import annotations

from collections.abc import Mapping

from draftune.cli import desk
from draftune.registry import Entry


def names() -> None:
    """Show the drafters, tasks and models that are known by name."""
    from draftune.data.open import TASKS
    from draftune.drafters.table import DRAFTERS
    from draftune.target.models import MODELS

    for title, registry in (("drafters", DRAFTERS), ("tasks", TASKS), ("models", MODELS)):
        desk.result(_section(title, registry.entries()))


def _section(title: str, entries: Mapping[str, Entry]) -> str:
    """A title and one indented line a name."""
    width = max(map(len, entries), default=0)
    lines = [f"  {name:{width}}  {entry.summary}" for name, entry in entries.items()]
    return "\n".join([title, *lines])
