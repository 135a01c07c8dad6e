"""Text of the packed runner held against that of the general one, prompt by prompt, and drafted text against both.

    python benchmarks/identity.py BUNDLE BUNDLE --task sql:.. --task samsum:..

In float32 every answer should be the same. In bfloat16 two programs round differently: a difference is a near-tie
where the general runner prefers its token by at most twice the largest difference of any logit of the two.
One JSON of counts is written beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from kept import HERE, keep


def main(
    bundles: Annotated[list[Path], typer.Argument(help="The bundles' folders.", exists=True, file_okay=False)],
    task: Annotated[list[str] | None, typer.Option(help="The rows of each bundle, where not its own.")] = None,
    prompts: Annotated[int, typer.Option(help="Held-out prompts of each.")] = 25,
    num_drafts: Annotated[int, typer.Option("-k", help="K.")] = 5,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 64,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = HERE,
) -> None:
    """Print the counts and the path of the JSON."""
    found = {}
    for precision in ("float32", "bfloat16"):
        for number, folder in enumerate(bundles):
            spec = task[number] if task else None
            key, one = compare(folder, spec, precision, prompts, num_drafts, max_new_tokens)
            found[f"{key}, {precision}"] = one
            typer.echo(f"{key}, {precision}: {one}")
    typer.echo(keep(out, "identity", {"num_drafts": num_drafts, "found": found}))


def compare(
    folder: Path, spec: str | None, precision: str, prompts: int, num_drafts: int, max_new_tokens: int
) -> tuple[str, dict[str, Any]]:
    """The task, and how many answers of the packed runner, plain and drafted, equal those of the general one."""
    from draftune.bench import BenchConfig
    from draftune.bench.check import plainly
    from draftune.bench.run import make_requests
    from draftune.data import open_task
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.export import bundle
    from draftune.target import lora

    card = bundle.read_card(folder)
    opened = bundle.read(folder, dtype=precision, drafters=[card.drafter])
    target, rows = lora.merge(opened.target, keep=False), open_task(spec or card.task)
    requests = make_requests(target, rows, BenchConfig(num_prompts=prompts, max_new_tokens=max_new_tokens))
    general, packed = target.runner("general"), target.runner("packed")
    wanted, plain = plainly(general, requests), plainly(packed, requests)
    decoder = Decoder(packed, opened.drafters[card.drafter], DecodeConfig(num_drafts=num_drafts))
    drafted = [decoder.generate([request])[0] for request in requests]
    ties = [
        near_tie(general, packed, request, one.tokens, other.tokens)
        for request, one, other in zip(requests, wanted, plain, strict=True)
        if one.tokens != other.tokens
    ]
    return rows.name, {
        "num_prompts": len(requests),
        "num_tokens": sum(len(one.tokens) for one in wanted),
        "packed_as_general": len(requests) - len(ties),
        "near_ties": sum(ties),
        "faults": len(ties) - sum(ties),
        "drafted_as_plain": sum(one.tokens == other.tokens for one, other in zip(plain, drafted, strict=True)),
        "num_accepted": sum(round_.num_accepted for one in drafted for round_ in one.rounds),
    }


def near_tie(general: Any, packed: Any, request: Any, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether rounding explains the first difference of two answers."""
    from draftune.bench.check import last_logits
    from draftune.bench.measure import first_difference

    index = first_difference(one, other)
    if index >= min(len(one), len(other)):
        return False
    logits, others = (last_logits(runner, request.prompt, one[:index], num_rows=1) for runner in (general, packed))
    margin = float(logits[one[index]] - logits[other[index]])
    return margin <= 2 * float((logits - others).abs().max())


if __name__ == "__main__":
    typer.run(main)
