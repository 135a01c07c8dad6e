"""Figures on disk, with what one must know to get them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def keep(out: Path, name: str, figures: dict[str, Any]) -> Path:
    """The path of a new file DATE-NAME.json that holds the figures, the command and the machine."""
    from draftune.bench import machine, record

    described = machine.describe("cpu")
    whole = {
        "format": 1,
        "command": machine.command_line(),
        "date": machine.now(),
        "git": machine.git_id(),
        "cpu": described.cpu,
        "num_cores": described.num_cores,
        **figures,
    }
    out.mkdir(parents=True, exist_ok=True)
    path = free(out, f"{whole['date'][:10]}-{name}", "json")
    with path.open("x", encoding="utf-8") as file:
        file.write(record.dump(whole) + "\n")
    return path


def free(out: Path, stem: str, suffix: str) -> Path:
    """STEM.suffix, or STEM-2.suffix and so on where that is taken: results are never overwritten."""
    path, number = out / f"{stem}.{suffix}", 1
    while path.exists():
        number += 1
        path = out / f"{stem}-{number}.{suffix}"
    return path
