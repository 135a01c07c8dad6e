"""What a step costs: the runners beside the floor of their matrix products, drafts beside a verify, a whole round.

    python benchmarks/runners.py

Every figure is a median of measurements taken in turns. The floor is all matrix products of one forward and nothing
else, by oneDNN on weights packed once. The drafters are not trained: their time does not depend on what they learned.
One JSON of figures is written beside this file.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from kept import keep

ROWS = (1, 2, 4, 5, 6, 8, 12)
CONTEXT, PROMPT = 250, 128  # tokens before the steps, and of the prompt whose reading is timed
NUM_DRAFTS, VOCABULARY = 4, 3124  # as many tokens as the answers of sql use
DRAFTERS, FLOORS = ("semiar-rnn", "semiar-gru", "semiar-lstm"), (1, 5)


def main(
    model: Annotated[str, typer.Option(help="The model to time.")] = "smollm2-135m",
    turns: Annotated[int, typer.Option(help="Measurements of each kind.")] = 15,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = Path(__file__).parent,
) -> None:
    """Print the medians in milliseconds and the path of the JSON."""
    found = {precision: measure(model, precision, turns) for precision in ("bfloat16", "float32")}
    for precision, figures in found.items():
        for name, value in figures.items():
            typer.echo(f"{precision:9} {name:24} {value:8.2f} ms")
    settings = {"context": CONTEXT, "prompt": PROMPT, "num_drafts": NUM_DRAFTS, "vocabulary": VOCABULARY}
    figures = {"model": model, "settings": settings, "turns": turns, "milliseconds": found}
    typer.echo(keep(out, f"{Path(model).name}-runners", figures))


def measure(model: str, precision: str, turns: int) -> dict[str, float]:
    """Median milliseconds by what was done, all of it in turns."""
    from draftune.target.load import load

    target = load(model, dtype=precision, device="cpu")
    actions: dict[str, Callable[[], object]] = {}
    for kind in ("packed", "general"):
        actions |= steps(target.runner(kind), kind) | {f"{kind}, prompt": prompt(target.runner(kind))}
    for name in DRAFTERS:
        actions |= drafts(target, name)
    return medians(actions | floor(target) | {"round": whole_round(target)}, turns)


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


def floor(target: Any) -> dict[str, Callable[[], object]]:
    """All matrix products of one forward."""
    import torch

    weights = [target.causal.get_output_embeddings().weight]
    for layer in target.layers:
        attention, mlp = layer.self_attn, layer.mlp
        weights.append(torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]))
        weights.append(attention.o_proj.weight)
        weights.append(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
        weights.append(mlp.down_proj.weight)
    found: dict[str, Callable[[], object]] = {}
    with torch.no_grad():
        for rows in FLOORS:
            pairs = []
            for weight in weights:
                packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), rows)
                pairs.append((torch.randn(rows, weight.shape[1]).to(weight.dtype), packed))
            found[f"floor, {rows} tokens"] = lambda pairs=pairs: multiply(pairs)
    return found


def multiply(pairs: list[Any]) -> None:
    """Every product."""
    import torch

    with torch.inference_mode():
        for x, packed in pairs:
            torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def whole_round(target: Any) -> Callable[[], object]:
    """Draft, verify and all else of a round."""
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.types import Request

    decoder = Decoder(target.runner(), built(target, DRAFTERS[0]), DecodeConfig(num_drafts=NUM_DRAFTS))
    request = Request(id="0", prompt=tuple(range(1000, 1000 + CONTEXT)), max_new_tokens=1500)
    return decoder.start([request]).step


def built(target: Any, name: str) -> Any:
    """A drafter over as many tokens as the answers of sql use."""
    import torch

    from draftune.drafters import table
    from draftune.drafters.vocabulary import Vocabulary

    vocabulary = Vocabulary(torch.arange(VOCABULARY), target.shape.vocab_size)
    return table.DRAFTERS.load(name)().build(target.parts(), vocabulary).eval()


def drafts(target: Any, name: str) -> dict[str, Callable[[], object]]:
    """The drafts of one round, in torch and by the kernel."""
    import torch

    from draftune.drafters.base import Greedy, Prefix
    from draftune.types import Features

    drafter = built(target, name)
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
                module.propose(module.begin(prefix), budget, Greedy())

        return draft

    return {f"drafts of {name}, torch": of(drafter), f"drafts of {name}, kernel": of(drafter.ready())}


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
