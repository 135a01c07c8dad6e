"""The results of the main job in one table.

    python benchmarks/summary.py

README.md beside this file holds what it prints; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEAD = (
    "| task | mode | runner | precision | drafter | τ | faster, decode | faster, whole | identical | file |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def table(folder: Path = Path(__file__).parent) -> str:
    """One line for each drafter and precision of every result of the main job."""
    return "\n".join((*HEAD, *(line for path in sorted(folder.glob("*.json")) for line in lines(path))))


def lines(path: Path) -> Iterator[str]:
    """The lines of one file; none for a file that another benchmark wrote."""
    whole: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "job" not in whole:
        return
    job = whole["job"]
    for precision, drafters in whole["drafters"].items():
        runner = whole["reports"][precision].get("runner", "general")
        for name, found in drafters.items():
            cells = (
                job["task"],
                job.get("mode", "after"),
                runner,
                precision,
                name,
                f"{found['tau']:.2f}",
                f"{found['speedup_decode']:.2f}",
                f"{found['speedup_total']:.2f}",
                f"{found['num_identical']}/{found['num_prompts']}",
                f"[{path.name}]({path.name})",
            )
            yield "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    print(table())
