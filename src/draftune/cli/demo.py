"""`draftune demo`: the whole road on a small model, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftune.cli import desk

if TYPE_CHECKING:
    from draftune.bench import Report
    from draftune.data import Task
    from draftune.export.bundle import Bundle


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the bundle to.")] = Path("demo"),
    model: Annotated[str, typer.Option(help="Another model to tune.", show_default="smollm2-135m")] = "",
    task: Annotated[str, typer.Option(help="Another task to tune it for.", show_default="builtin:sql")] = "",
) -> None:
    """Tune a small model and two drafters, answer a question, check that nothing changed, measure the gain.

    Ends with the path of the report. A demo that was interrupted goes on where it was.
    """
    from draftune.bench import report as pages
    from draftune.cli import tune
    from draftune.data import open_task
    from draftune.export import bundle as bundles
    from draftune.recipes import demo as recipe

    desk.quiet()
    bundles.check_free(out)
    model, spec = model or recipe.MODEL, task or recipe.TASK
    opened_task, config = open_task(spec), recipe.training()
    desk.step(1, 4, f"tuning {model} on {spec}, then {' and '.join(config.drafters)} for it")
    tune.make(model, opened_task, config, out, spec=spec, resume=tune.is_begun(out))
    desk.step(2, 4, "decoding the same prompts plainly and with each drafter")
    report = _measure(bundles.read(out), opened_task)
    opened = _folded(bundles.read(out, dtype=recipe.CHECK_DTYPE))
    desk.step(3, 4, f"answering a question with {opened.card.drafter}")
    _answer(opened, opened_task)
    desk.step(4, 4, "comparing every token with plain decoding")
    _check(opened, opened_task)
    desk.result(f"report: {pages.write(report, out / 'report', include_text=True)}")


def _measure(opened: Bundle, task: Task) -> Report:
    from rich.console import Console

    from draftune.bench import table
    from draftune.cli import bench
    from draftune.recipes import demo as recipe

    report = bench.measure(opened, task, recipe.benchmark())
    Console(highlight=False).print(table.render(report))
    return report


def _folded(opened: Bundle) -> Bundle:
    import dataclasses

    from draftune.target import lora

    return dataclasses.replace(opened, target=lora.merge(opened.target, keep=False))


def _answer(opened: Bundle, task: Task) -> None:
    """Show the question of the first held-out row and stream the answer to it."""
    from draftune.cli import voice as voices
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.recipes import demo as recipe

    question = task.test[0].prompt
    desk.result("\n".join(f"{message.role}: {message.content}" for message in question))
    drafter = opened.drafters[opened.card.drafter]
    voice = voices.Voice(
        target=opened.target,
        decoder=Decoder(opened.target.runner(), drafter, DecodeConfig(num_drafts=recipe.NUM_DRAFTS)),
        drafter="",
    )
    request = voice.request(question, max_new_tokens=recipe.MAX_NEW_TOKENS, temperature=0.0, seed=None, stop=())
    desk.result("assistant: ", end="")
    for piece, _ in voices.speak(voice, request):
        desk.result(piece, end="")
    desk.result("")


def _check(opened: Bundle, task: Task) -> None:
    from draftune.bench import check as checks
    from draftune.bench.run import make_requests
    from draftune.cli import check
    from draftune.recipes import demo as recipe

    config, runner = recipe.check(), opened.target.runner()
    requests = make_requests(opened.target, task, config)
    plain = checks.plainly(runner, requests)
    for name, drafter in opened.drafters.items():
        checked = checks.check(runner, drafter, requests, num_drafts=config.num_drafts, plain=plain)
        check.tell(opened.target, checked, config.num_drafts, name)
