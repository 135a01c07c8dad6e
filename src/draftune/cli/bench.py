"""`draftune bench`: what drafting gains on a bundle, measured beside plain decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.bench import BenchConfig, Report
    from draftune.bench.record import Interval
    from draftune.data import Task
    from draftune.export.bundle import Bundle, Card


def bench(
    bundle: options.Bundle,
    task: options.Task = None,
    field: options.Field = None,
    prompts: Annotated[int, typer.Option(min=1, help="How many held-out prompts.")] = 40,
    max_new_tokens: options.MaxNewTokens = 256,
    num_drafts: options.AsTrained = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts decoded together.")] = 1,
    temperature: options.Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="Of the noise at a temperature above 0.")] = 0,
    adaptive: options.Adaptive = False,
    rule: options.Rule = "auto",
    drafter: Annotated[
        list[str] | None, typer.Option(help="Only this drafter of the bundle; may be given again.")
    ] = None,
    beside: Annotated[
        Path | None, typer.Option(help="Also score the model of this bundle, as plain LoRA beside a joint one.")
    ] = None,
    score_base: Annotated[bool, typer.Option(help="Also score the model without its adapter.")] = True,
    text: Annotated[bool, typer.Option(help="Show a few answers in the report; else it holds figures alone.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where the report goes.", show_default="BUNDLE/report", file_okay=False)
    ] = None,
    runner: options.Runner = "auto",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    base: options.Base = None,
) -> None:
    """Decode held-out prompts plainly and with each drafter, side by side: speed, acceptance, task score.

    Writes report.html for people and metrics.json for machines; the last line on stdout is JSON.
    """
    from draftune import config as configs
    from draftune.bench import BenchConfig, run
    from draftune.cli import rows
    from draftune.export import bundle as bundles

    desk.quiet()
    card = bundles.read_card(bundle)
    settings = {
        "num_prompts": prompts,
        "max_new_tokens": max_new_tokens,
        "num_drafts": card.num_drafts if num_drafts is None else num_drafts,
        "batch_size": batch_size,
        "temperature": temperature,
        "seed": None if rule == "rejection" and temperature > 0 else seed,
        "rule": rule,
        "adaptive": adaptive,
        "base": score_base,
        "runner": runner,
    }
    config = configs.make(BenchConfig, settings, doing="reading the benchmark's settings")
    chosen = rows.held_out(card, task, field)
    scores: dict[str, Interval] = {}
    if beside is not None:
        other = bundles.read(beside, dtype=dtype, device=device, base=base, drafters=())
        scores[_label(other.card, card, beside)] = run.score(other.target, chosen, config)
        del other  # before the next model is loaded
    opened = bundles.read(bundle, dtype=dtype, device=device, base=base, drafters=drafter)
    found = measure(opened, chosen, config, scores)
    show(found, out or bundle / "report", text=text)


def _label(other: Card, own: Card, folder: Path) -> str:
    """What the other bundle's score is called: its folder, where both were trained the same way."""
    from draftune.bench.run import SCORE_NAMES

    return str(folder) if other.mode == own.mode else SCORE_NAMES[other.mode]


def measure(opened: Bundle, task: Task, config: BenchConfig, scores: Mapping[str, Interval] | None = None) -> Report:
    """The report on a bundle; `scores` of other models are shown beside its own."""
    from draftune.bench import run

    return run.bench(
        opened.target,
        opened.drafters,
        task,
        config,
        name=run.SCORE_NAMES[opened.card.mode],
        console=desk.console(),
        extra_targets=scores,
    )


def show(report: Report, folder: Path, *, text: bool) -> None:
    """Print the tables, the report's path and the figures in one line of JSON."""
    from rich.console import Console

    from draftune.bench import headline, table
    from draftune.bench import report as pages

    path = pages.write(report, folder, include_text=text)
    Console(highlight=False).print(table.render(report))
    desk.result(f"report: {path}")
    desk.result(json.dumps(headline.figures(report), ensure_ascii=False))
