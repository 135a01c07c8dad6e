"""What the verbs share: a result goes to stdout, everything else to stderr."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """The stream for all that is not a result."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def result(text: str, *, end: str = "\n") -> None:
    """Write a result to stdout at once, as it is."""
    import typer

    typer.echo(text, nl=False)
    typer.echo(end, nl=False)


def complain(error: Exception) -> None:
    """Tell an error in its one sentence, unwrapped, so that it can be searched for."""
    from rich.markup import escape

    console().print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)


def quiet() -> None:
    """Keep the libraries from talking over us: their warnings and loading bars tell a user nothing."""
    import warnings

    warnings.simplefilter("ignore", FutureWarning)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    from transformers import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def note(text: str) -> None:
    """Tell something that is neither a result nor an error."""
    from rich.markup import escape

    console().print(f"[yellow]note:[/] {escape(text)}", soft_wrap=True)


def step(number: int, total: int, text: str) -> None:
    """Announce the next part of something long."""
    from rich.markup import escape

    console().print(f"[bold]{number}/{total}[/] {escape(text)}")
