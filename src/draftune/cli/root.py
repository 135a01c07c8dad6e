"""The command `draftune`: its verbs, and the one place where an error becomes a sentence."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import draftune
from draftune import errors
from draftune.cli import bench, chat, check, data, demo, desk, generate, names, tune

MISTAKE = 2  # exit code of a DraftuneError, as of a mistyped option


class Desk(TyperGroup):
    """The root group: a DraftuneError is told in its one sentence, on stderr, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """What the verb returns; exits with 2 after a DraftuneError (Ctrl-C exits with 130 by itself)."""
        try:
            return super().invoke(ctx)
        except errors.DraftuneError as error:
            desk.complain(error)
            raise typer.Exit(MISTAKE) from error


app = typer.Typer(
    cls=Desk,
    name="draftune",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"draftune {draftune.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Fine-tune a language model and a tiny drafter for it, then decode faster with not one token changed."""


app.command()(tune.tune)
app.command()(generate.generate)
app.command()(chat.chat)
app.command()(bench.bench)
app.command()(check.check)
app.command("list")(names.names)
app.command()(demo.demo)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command line."""
    app()
