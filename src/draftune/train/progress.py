"""What a person sees of a run: a bar on a terminal, one line per evaluation elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from draftune.train.guard import EXCESS

if TYPE_CHECKING:
    from rich.console import Console


class Reporter:
    """Writes to the console it is given, to the terminal behind stderr, or plain lines to stderr."""

    def __init__(self, console: Console | None) -> None:
        if console is None and sys.stderr.isatty():
            from rich.console import Console

            console = Console(stderr=True)
        self.console = console
        self._bar: Any = None
        self._task: Any = None
        self._held_out = ""

    @contextmanager
    def stage(self, name: str, progress: float = 0.0) -> Iterator[None]:
        """A bar for the steps inside the block, where there is a terminal."""
        self._held_out = ""
        if self.console is None or not self.console.is_terminal:
            yield
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}% {task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, transient=False) as bar:
            self._bar, self._task = bar, bar.add_task(name, total=1.0, figures="")
            bar.update(self._task, completed=progress)
            try:
                yield
            finally:
                self._bar = None

    @contextmanager
    def count(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A way to tell that so many more of `total` are done; a bar where there is a terminal."""
        if self.console is None or total == 0:
            yield lambda number: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=self.console, transient=False) as bar:
            task = bar.add_task(name, total=total)
            yield lambda number: bar.advance(task, number)

    def step(self, record: Mapping[str, Any]) -> None:
        """Move the bar."""
        if self._bar is not None:
            shown = f"loss {record['loss']:.3f}  {record['tokens_per_s']:.0f} tok/s"
            self._bar.update(self._task, completed=record["progress"], figures=f"{shown}  {self._held_out}")

    def evaluation(self, record: Mapping[str, Any]) -> None:
        """One line with the held-out figures."""
        self._held_out = held_out(record)
        line = f"{record['stage']} step {record['step']}: {self._held_out}"
        self.warn(line) if self.console is None else self.console.print(line, highlight=False, markup=False)

    def note(self, text: str) -> None:
        """A line for a person who is watching."""
        if self.console is not None:
            self.console.print(text, highlight=False, markup=False)

    def warn(self, text: str) -> None:
        """A line that must be seen, watching or not."""
        if self.console is None:
            print(f"draftune: {text}", file=sys.stderr, flush=True)
        else:
            self.console.print(text, style="yellow", highlight=False, markup=False)


def held_out(record: Mapping[str, Any]) -> str:
    """The held-out figures of an evaluation in words, as "nll 1.234  tau 2.10  alpha .71 .52 .40"."""
    words = [f"nll {record['nll']:.3f}"] if "nll" in record else []
    if EXCESS in record:
        words.append(f"({record[EXCESS]:+.1%} on plain LoRA)")
    if "tau" in record:
        words.append(f"tau {record['tau']:.2f}")
    alpha = [record[name] for name in record if name.startswith("alpha_")]
    if alpha:
        words.append("alpha " + " ".join(f"{value:.2f}" for value in alpha))
    return "  ".join(words)
