"""What a step costs: the packed runner beside the general one, and a recurrent drafter's drafts beside a verify.

    python benchmarks/runners.py

Every figure is a median of measurements taken in turns. One JSON of figures is written beside this file. The drafter
is not trained: its time does not depend on what it learned.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

ROWS = (1, 2, 4, 5, 6, 8, 12)
CONTEXT, PROMPT = 250, 128  # tokens before the steps, and of the prompt whose reading is timed
NUM_DRAFTS, VOCABULARY = 4, 3124  # as many tokens as the answers of sql use


def main(
    model: Annotated[str, typer.Option(help="The model to time.")] = "smollm2-135m",
    turns: Annotated[int, typer.Option(help="Measurements of each kind.")] = 15,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = Path(__file__).parent,
) -> None:
    """Print the medians in milliseconds and the path of the JSON."""
    from draftune.bench import machine, record

    found = {precision: measure(model, precision, turns) for precision in ("bfloat16", "float32")}
    for precision, figures in found.items():
        for name, value in figures.items():
            typer.echo(f"{precision:9} {name:24} {value:8.2f} ms")
    described = machine.describe("cpu")
    whole: dict[str, Any] = {
        "format": 1,
        "command": machine.command_line(),
        "date": machine.now(),
        "git": machine.git_id(),
        "model": model,
        "settings": {"context": CONTEXT, "prompt": PROMPT, "num_drafts": NUM_DRAFTS, "vocabulary": VOCABULARY},
        "turns": turns,
        "cpu": described.cpu,
        "num_cores": described.num_cores,
        "milliseconds": found,
    }
    path = out / f"{whole['date'][:10]}-{Path(model).name}-runners.json"
    with path.open("x", encoding="utf-8") as file:
        file.write(record.dump(whole) + "\n")
    typer.echo(path)


def measure(model: str, precision: str, turns: int) -> dict[str, float]:
    """Median milliseconds by what was done, all of it in turns."""
    from draftune.target.load import load

    target = load(model, dtype=precision, device="cpu")
    actions: dict[str, Callable[[], object]] = {}
    for kind in ("packed", "general"):
        actions |= steps(target.runner(kind), kind) | {f"{kind}, prompt": prompt(target.runner(kind))}
    return medians(actions | drafts(target), turns)


def steps(runner: Any, kind: str) -> dict[str, Callable[[], object]]:
    """A forward of some tokens after a context."""
    import torch

    runner.open(1, CONTEXT + max(ROWS), ())
    runner.prefill([list(range(1000, 1000 + CONTEXT))])
    blocks = {rows: torch.arange(500, 500 + rows)[None] for rows in ROWS}
    return {f"{kind}, {rows} tokens": lambda block=block: runner.forward(block) for rows, block in blocks.items()}


def prompt(runner: Any) -> Callable[[], object]:
    """Reading a prompt into fresh memory."""

    def read() -> None:
        runner.open(1, PROMPT, ())
        runner.prefill([list(range(1000, 1000 + PROMPT))])

    return read


def drafts(target: Any) -> dict[str, Callable[[], object]]:
    """The drafts of one round, in torch and by the kernel."""
    import torch

    from draftune.drafters.base import Prefix
    from draftune.drafters.table import DRAFTERS
    from draftune.drafters.vocabulary import Vocabulary
    from draftune.types import Features

    drafter = DRAFTERS.load("semiar-gru")().build(
        target.parts(), Vocabulary(torch.arange(VOCABULARY), target.shape.vocab_size)
    )
    hidden = torch.randn(1, 1, 1, target.shape.hidden_size).to(target.dtype)
    prefix = Prefix(
        tokens=torch.zeros(1, 1, dtype=torch.int64),
        lengths=torch.ones(1, dtype=torch.int64),
        features=Features(ids=("0",), hidden=hidden, taps=(-1,)),
        anchor=torch.tensor([7]),
    )
    budget = torch.tensor([NUM_DRAFTS])

    def of(module: Any) -> Callable[[], object]:
        def draft() -> None:
            with torch.inference_mode():
                module.propose(module.begin(prefix), budget, greedy)

        return draft

    return {"drafts, torch": of(drafter.eval()), "drafts, kernel": of(drafter.eval().ready())}


def greedy(logits_BV: Any, drafted_BK: Any, ids_V: Any) -> tuple[Any, None]:
    """A sampler."""
    return ids_V[logits_BV.argmax(dim=-1)], None


def medians(actions: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Milliseconds of each action. The drafts follow a verify in each turn, as they do in decoding."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(turns + 2):
        for name, action in actions.items():
            if name.startswith("drafts"):
                actions["packed, 5 tokens"]()
            start = time.perf_counter()
            action()
            if turn >= 2:  # the first two warm up
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: round(statistics.median(found), 3) for name, found in times.items()}


if __name__ == "__main__":
    typer.run(main)
