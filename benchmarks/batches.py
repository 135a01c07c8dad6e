"""Tokens a second by how many prompts are decoded together: plainly, drafted, and with K chosen by cost.

    python benchmarks/batches.py BUNDLE

Where drafting stops paying, the chosen K is 0. A batch ends with its longest answer; that is the same for all three.
One JSON of figures and a plot are written beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from kept import HERE, keep

SIZES = (1, 2, 4, 8, 16)


def main(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", exists=True, file_okay=False)],
    drafter: Annotated[str | None, typer.Option(help="The drafter, where not the bundle's default.")] = None,
    task: Annotated[str | None, typer.Option(help="The task's rows, where not those of the bundle.")] = None,
    dtype: Annotated[str, typer.Option(help="Precision.")] = "bfloat16",
    prompts: Annotated[int, typer.Option(help="Held-out prompts.")] = 32,
    num_drafts: Annotated[int, typer.Option("-k", help="K at most.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 96,
    out: Annotated[Path, typer.Option(help="Where JSON and plot go.", file_okay=False)] = HERE,
) -> None:
    """Print a line for each size and the path of the JSON."""
    from draftune.bench import BenchConfig
    from draftune.bench.run import bench
    from draftune.data import open_task
    from draftune.export import bundle as bundles
    from draftune.target import lora

    card = bundles.read_card(bundle)
    name, spec = drafter or card.drafter, task or card.task
    opened = bundles.read(bundle, dtype=dtype, drafters=[name])
    target, rows, found = lora.merge(opened.target, keep=False), open_task(spec), {}
    limits = {"num_prompts": prompts, "max_new_tokens": max_new_tokens, "num_drafts": num_drafts, "base": False}
    for size in SIZES:
        ways = {}
        for adaptive in (False, True):
            config = BenchConfig(**limits, batch_size=size, adaptive=adaptive)  # type: ignore[arg-type]
            ways[adaptive] = bench(target, opened.drafters, rows, config)
        found[size] = line(ways[False], ways[True], name)
        typer.echo(f"{size:3} together: " + ", ".join(f"{key} {value:.2f}" for key, value in found[size].items()))
    short = Path(rows.name).stem
    settings = {"task": spec, "drafter": name, "dtype": dtype, **limits}
    path = keep(out, f"batches-{short}", settings | {"sizes": {str(size): one for size, one in found.items()}})
    draw(found, path.with_suffix(".png"), f"SmolLM2-135M tuned on {short}, K = {num_drafts}")
    typer.echo(path)


def line(fixed: Any, adaptive: Any, name: str) -> dict[str, float]:
    """What matters of two reports. Each has its own plain decoding in the same run, so speed-ups are of one run."""
    drafted, chosen = fixed.drafted[name], adaptive.drafted[name]
    return {
        "plain_tokens_per_s": fixed.plain.rates.decode_tokens_per_s,
        "drafted_tokens_per_s": drafted.rates.decode_tokens_per_s,
        "speedup": drafted.speedup_decode.value,
        "speedup_adaptive": chosen.speedup_decode.value,
        "tau": drafted.acceptance.tau,
        "num_drafts_adaptive": chosen.acceptance.num_drafted / max(1, chosen.acceptance.num_rounds),
        "identical": drafted.identity.num_identical,
        "identical_adaptive": chosen.identity.num_identical,
    }


def draw(found: dict[int, dict[str, float]], path: Path, title: str) -> None:
    """Speed-ups over the size of the batch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for key, label in (("speedup", "K fixed"), ("speedup_adaptive", "K by cost")):
        axes.plot(list(found), [one[key] for one in found.values()], marker="o", label=label)
    axes.axhline(1.0, color="gray", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(found), [str(size) for size in found])
    axes.set_xlabel("prompts decoded together")
    axes.set_ylabel("times faster than plain")
    axes.set_title(title)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    typer.run(main)
