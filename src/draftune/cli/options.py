"""Options that several verbs take, written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from draftune.types import Message

Bundle = Annotated[Path, typer.Argument(help="The folder that `draftune tune` wrote.", show_default=False)]
System = Annotated[str | None, typer.Option(help="A system message before the prompt.")]
MaxNewTokens = Annotated[int, typer.Option(min=1, help="Most tokens of an answer.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="0 always takes the likeliest token.")]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same text, with any drafter or none.")]
NumDrafts = Annotated[int, typer.Option("--num-drafts", "-k", help="Tokens drafted a round, 1 or more.")]
AsTrained = Annotated[
    int | None, typer.Option("--num-drafts", "-k", help="Tokens drafted a round, 1 or more.", show_default="as trained")
]
Adaptive = Annotated[
    bool, typer.Option("--adaptive", help="Draft fewer tokens where that is faster; measures this machine first.")
]
Chosen = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--no-adaptive",
        help="Draft fewer tokens, or none, where that is faster on this machine, which is measured once.",
        show_default="unless -k is given",
    ),
]
Rule = Annotated[str, typer.Option(help="How drafts are judged: auto, match or rejection.")]
Drafter = Annotated[str | None, typer.Option(help="Another drafter of the bundle, or none.", show_default="its first")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")]
Runner = Annotated[str, typer.Option(help="How the model is read: auto, packed (fast, on a CPU) or general.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Base = Annotated[str | None, typer.Option(help="Where the base model is now, if it has moved.", show_default=False)]
Task = Annotated[
    str | None, typer.Option(help="Rows to answer; by default those held out when tuning.", show_default=False)
]
Field = Annotated[
    list[str] | None,
    typer.Option(help="Which field of a row means what: prompt=question, answer=reply.", show_default=False),
]


def messages(system: str | None, prompt: str) -> list[Message]:
    """A conversation of one question."""
    from draftune.types import Message

    opening = [Message(role="system", content=system)] if system else []
    return [*opening, Message(role="user", content=prompt)]
