"""How many tokens a drafter should predict over: a trained one cut to the most frequent tokens of the answers.

    python benchmarks/vocabulary.py BUNDLE --size 500 --size 1000 --size 2000

Fewer tokens make drafting cheaper and let some drafts fall that would have stood. Nothing is trained again: rows of
the head are left out. One JSON of figures is written beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from kept import HERE, keep

ROWS = 3000  # training rows whose answers are counted


def main(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", exists=True, file_okay=False)],
    drafter: Annotated[str | None, typer.Option(help="The drafter, where not the bundle's default.")] = None,
    task: Annotated[str | None, typer.Option(help="The task's rows, where not those of the bundle.")] = None,
    size: Annotated[list[int] | None, typer.Option(help="Tokens kept; may be given again.")] = None,
    dtype: Annotated[str, typer.Option(help="Precision.")] = "bfloat16",
    prompts: Annotated[int, typer.Option(help="Held-out prompts.")] = 40,
    num_drafts: Annotated[int, typer.Option("-k", help="K.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 96,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = HERE,
) -> None:
    """Print a line for each size and the path of the JSON."""
    from draftune.bench import BenchConfig
    from draftune.bench.run import bench
    from draftune.data import audit, open_task
    from draftune.drafters import store
    from draftune.export import bundle as bundles
    from draftune.target import lora

    card = bundles.read_card(bundle)
    name, rows = drafter or card.drafter, open_task(task or card.task)
    opened = bundles.read(bundle, dtype=dtype, drafters=[name])
    examples, _ = audit.encode_all(rows.train[:ROWS], opened.target.tokenizer, opened.target.shape.max_length)
    counts = audit.token_counts(examples)
    place = bundle / ("drafter" if name == card.drafter else f"drafters/{name}")
    config, parts = store.load(place, opened.target.parts())[1].config, opened.target.parts()
    whole = opened.drafters[name]
    ids = sorted(whole.vocabulary.ids.tolist(), key=lambda token: (-counts[token], token))  # type: ignore[union-attr]
    sizes = [*sorted(one for one in size or [500, 1000, 2000] if one < len(ids)), len(ids)]
    cut = {f"{one}": narrowed(whole, config, parts, ids[:one]) for one in sizes}
    limits = {"num_prompts": prompts, "max_new_tokens": max_new_tokens, "num_drafts": num_drafts, "base": False}
    target = lora.merge(opened.target, keep=False)
    found = bench(target, cut, rows, BenchConfig(**limits))  # type: ignore[arg-type]
    figures = {key: line(one) for key, one in found.drafted.items()}
    for key, one in figures.items():
        typer.echo(f"{key:>6} tokens: " + ", ".join(f"{what} {value:.3f}" for what, value in one.items()))
    settings = {"task": rows.name, "drafter": name, "dtype": dtype, **limits}
    typer.echo(keep(out, f"vocabulary-{Path(rows.name).stem}", settings | {"sizes": figures}))


def narrowed(drafter: Any, config: Any, parts: Any, ids: Sequence[int]) -> Any:
    """The drafter over some of its tokens: of every weight that has a row for each token, those rows."""
    import torch

    from draftune.drafters.vocabulary import Vocabulary

    vocabulary = Vocabulary(torch.tensor(ids), parts.shape.vocab_size)
    made, columns = config.build(parts, vocabulary), drafter.vocabulary.labels(vocabulary.ids)
    state = drafter.state_dict()
    for key, mine in made.state_dict().items():
        if state[key].shape != mine.shape:
            state[key] = state[key][columns]
    made.load_state_dict(state)
    return made.eval()


def line(one: Any) -> dict[str, float]:
    """What matters of a drafter's record."""
    return {
        "tau": one.acceptance.tau,
        "speedup": one.speedup_decode.value,
        "draft_ms_a_round": 1000 * one.seconds.draft / one.acceptance.num_rounds,
        "verify_ms_a_round": 1000 * one.seconds.verify / one.acceptance.num_rounds,
    }


if __name__ == "__main__":
    typer.run(main)
