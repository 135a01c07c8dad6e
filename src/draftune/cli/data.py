"""`draftune data show`: the rows of a task as training will see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftune.cli import desk, options

if TYPE_CHECKING:
    from rich.text import Text

    from draftune.data import Task
    from draftune.types import Example, Row

OPEN, CLOSE = "⟦", "⟧"  # around what is learned, for readers without colour

app = typer.Typer(help="Look at the rows of a task.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Look at the rows of a task."""


@app.command()
def show(
    spec: Annotated[str, typer.Argument(metavar="TASK", help="A file, a folder, a hub id or a named task.")],
    model: Annotated[
        str | None, typer.Option(help="Whose tokens to show: a model folder, hub id, .gguf file or named model.")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many rows to print.")] = 3,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "train",
    max_length: Annotated[int, typer.Option(min=1, help="Most tokens of a row.")] = 1024,
    field: options.Field = None,
    seed: Annotated[int, typer.Option(help="Of the shuffle that holds rows out.")] = 0,
) -> None:
    """Print rows with what is learned in ⟦brackets⟧, then counts, truncation, duplicates, overlap of the splits.

    Without --model the rows are shown as text and the overlap is counted in words.
    """
    from rich.console import Console

    from draftune.cli import rows as fields
    from draftune.data import open_task

    task = open_task(spec, seed=seed, mapping=fields.mapping(field) or None)
    chosen = task.split(split)
    out = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
    if model is None:
        shown, sentences = [_as_text(row) for row in chosen[:rows]], _words(task, split)
    else:
        shown, sentences = _tokens(task, split, model, rows, max_length)
    for part in shown:
        out.print(part, end="\n\n")
    counts = ", ".join(f"{name} {len(task.split(name)):,}" for name in ("train", "validation", "test"))
    out.print(f"{task.name}: {counts}; scored by {task.metric.name}; data {task.fingerprint()}")
    for sentence in (*task.notes, *sentences):
        out.print(f"  {sentence}")


def _tokens(task: Task, split: str, model: str, num_rows: int, max_length: int) -> tuple[list[Text], list[str]]:
    """The first rows that fit, as tokens, and the audit of the whole split in sentences."""
    from draftune.data import audit
    from draftune.target import load

    desk.quiet()
    tokenizer = load.tokenizer(model)
    with desk.console().status("encoding"):
        examples, found = audit.encode_all(task.split(split), tokenizer, max_length)
        sentences = [f"{split}: {sentence}" for sentence in found.sentences()]
        for train, held_out in _pairs(split):
            train_examples = examples if split == "train" else audit.encode_all(task.train, tokenizer, max_length)[0]
            held = examples if split == held_out else audit.encode_all(task.split(held_out), tokenizer, max_length)[0]
            shared = audit.overlap(train_examples, held)
            sentences += [f"{held_out} against {train}: {sentence}" for sentence in shared.sentences()]
    return [_as_tokens(example, tokenizer) for example in examples[:num_rows]], sentences


def _words(task: Task, split: str) -> list[str]:
    """The overlap of the splits in words, where no tokenizer is at hand."""
    from draftune.data import audit

    train = [audit.in_words(row) for row in task.train]
    sentences = []
    for _, name in _pairs(split):
        shared = audit.overlap(train, [audit.in_words(row) for row in task.split(name)])
        sentences += [f"{name} against train, in words: {sentence}" for sentence in shared.sentences()]
    return sentences


def _pairs(split: str) -> list[tuple[str, str]]:
    """What to compare: the shown split with train, or, where train is shown, both others with it."""
    return [("train", name) for name in ("validation", "test") if split in ("train", name)]


def _as_tokens(example: Example, tokenizer: Any) -> Text:
    """A row's tokens as text, the learned ones marked, their number in front."""
    from rich.text import Text

    text = Text(f"{example.id} ({len(example.tokens)} tokens, {sum(example.learned)} learned)\n", style="bold")
    for learned, tokens in _runs(example):
        said = str(tokenizer.decode(tokens, clean_up_tokenization_spaces=False))
        text.append(*_marked(said, learned))
    return text


def _as_text(row: Row) -> Text:
    """A row's messages, the answers marked."""
    from rich.text import Text

    text = Text(f"{row.id}\n", style="bold")
    for number, message in enumerate(row.messages):
        text.append("\n" * bool(number) + f"{message.role}: ", style="bold")
        text.append(*_marked(message.content, message.role == "assistant"))
    return text


def _marked(said: str, learned: bool) -> tuple[str, str]:
    return (f"{OPEN}{said}{CLOSE}", "not bold green") if learned else (said, "not bold dim")


def _runs(example: Example) -> Iterator[tuple[bool, Sequence[int]]]:
    """Runs of tokens that are all learned or all not, in order: decoded together, for a letter may take several."""
    start = 0
    for end in range(1, len(example.tokens) + 1):
        if end == len(example.tokens) or example.learned[end] != example.learned[start]:
            yield example.learned[start], example.tokens[start:end]
            start = end
