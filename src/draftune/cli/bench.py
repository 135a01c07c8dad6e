"""`draftune bench`: what drafting gains on a bundle, measured beside plain decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.bench import BenchConfig, Report
    from draftune.data import Task
    from draftune.export.bundle import Bundle


def bench(
    bundle: options.Bundle,
    task: options.Task = None,
    prompts: Annotated[int, typer.Option(min=1, help="How many held-out prompts.")] = 40,
    max_new_tokens: options.MaxNewTokens = 256,
    num_drafts: options.NumDrafts = 5,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts decoded together.")] = 1,
    temperature: options.Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="Of the noise at a temperature above 0.")] = 0,
    rule: options.Rule = "auto",
    drafter: Annotated[
        list[str] | None, typer.Option(help="Only this drafter of the bundle; may be given again.")
    ] = None,
    score_base: Annotated[bool, typer.Option(help="Also score the model without its adapter.")] = True,
    text: Annotated[bool, typer.Option(help="Show a few answers in the report; else it holds figures alone.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where the report goes.", show_default="BUNDLE/report", file_okay=False)
    ] = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    base: options.Base = None,
) -> None:
    """Decode held-out prompts plainly and with each drafter, side by side: speed, acceptance, task score.

    Writes report.html for people and metrics.json for machines; the last line on stdout is JSON.
    """
    from draftune import config as configs
    from draftune.bench import BenchConfig
    from draftune.cli import rows
    from draftune.export import bundle as bundles

    desk.quiet()
    settings = {
        "num_prompts": prompts,
        "max_new_tokens": max_new_tokens,
        "num_drafts": num_drafts,
        "batch_size": batch_size,
        "temperature": temperature,
        "seed": None if rule == "rejection" and temperature > 0 else seed,
        "rule": rule,
        "base": score_base,
    }
    config = configs.make(BenchConfig, settings, doing="reading the benchmark's settings")
    opened = bundles.read(bundle, dtype=dtype, device=device, base=base, drafters=drafter)
    show(measure(opened, rows.held_out(opened.card, task), config), out or bundle / "report", text=text)


def measure(opened: Bundle, task: Task, config: BenchConfig) -> Report:
    """The report on a bundle, its adapter folded in for speed after the model without it has been scored."""
    import dataclasses

    from draftune.bench import run
    from draftune.target import lora

    target, scores = opened.target, {}
    if lora.has_adapter(target):
        if config.base:
            scores["base"] = run.score(target, task, config, base=True)
        target, config = lora.merge(target), dataclasses.replace(config, base=False)
    return run.bench(target, opened.drafters, task, config, console=desk.console(), extra_targets=scores)


def show(report: Report, folder: Path, *, text: bool) -> None:
    """Print the tables, the report's path and the figures in one line of JSON."""
    from rich.console import Console

    from draftune.bench import headline, table
    from draftune.bench import report as pages

    path = pages.write(report, folder, include_text=text)
    Console(highlight=False).print(table.render(report))
    desk.result(f"report: {path}")
    desk.result(json.dumps(headline.figures(report), ensure_ascii=False))
