"""The cost model held against the clock: speed-up predicted from validation rows and a calibration, and measured.

    python benchmarks/prediction.py BUNDLE BUNDLE --task sql:.. --task samsum:..

α_k comes from the tuned model's answers to validation prompts, times from `draftune.decode.calibrate`; the speed-up is
that of test prompts. One JSON of figures is written beside this file.
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Annotated, Any

import typer
from kept import HERE, keep

MOST = 5  # K of the validation rows, so that every α_k up to it is known


def main(
    bundles: Annotated[list[Path], typer.Argument(help="The bundles' folders.", exists=True, file_okay=False)],
    task: Annotated[list[str] | None, typer.Option(help="The rows of each bundle, where not its own.")] = None,
    dtype: Annotated[str, typer.Option(help="Precision.")] = "bfloat16",
    prompts: Annotated[int, typer.Option(help="Prompts of each split.")] = 40,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 96,
    num_drafts: Annotated[list[int] | None, typer.Option("-k", help="K; may be given again.")] = None,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = HERE,
) -> None:
    """Print a line for each bundle, drafter and K, and the path of the JSON."""
    found = {}
    for number, folder in enumerate(bundles):
        spec = task[number] if task else None
        for key, one in predict(folder, spec, dtype, prompts, max_new_tokens, num_drafts or [2, 4]).items():
            found[key] = one
            typer.echo(f"{key:34} predicted {one['predicted']:.2f} measured {one['measured']:.2f} {one['error']:+.1%}")
    typer.echo(keep(out, "prediction", {"dtype": dtype, "prompts": prompts, "found": found}))


def predict(
    folder: Path, spec: str | None, dtype: str, prompts: int, max_new_tokens: int, wanted: list[int]
) -> dict[str, dict[str, Any]]:
    """By task, drafter and K what was predicted and measured."""
    from draftune.bench import BenchConfig
    from draftune.bench.run import bench, make_requests
    from draftune.data import open_task
    from draftune.decode import cost
    from draftune.decode.calibrate import calibrate
    from draftune.export import bundle
    from draftune.target import lora

    card = bundle.read_card(folder)
    opened = bundle.read(folder, dtype=dtype)
    target, rows = lora.merge(opened.target, keep=False), open_task(spec or card.task)
    validation = dataclasses.replace(rows, test=rows.validation)
    limits = {"num_prompts": prompts, "max_new_tokens": max_new_tokens, "base": False}
    known = bench(target, opened.drafters, validation, BenchConfig(num_drafts=MOST, **limits))  # type: ignore[arg-type]
    width = statistics.mean(len(one.prompt) for one in make_requests(target, validation, BenchConfig(num_prompts=20)))
    length, found = int(width + known.plain.num_tokens / known.num_prompts / 2), {}
    for name, drafter in opened.drafters.items():
        costs = calibrate(target.runner(), drafter, length=length, most=MOST)
        alpha = [value for value in known.drafted[name].acceptance.alpha if value is not None]
        for k in wanted:
            config = BenchConfig(num_drafts=k, **limits)  # type: ignore[arg-type]
            one = bench(target, {name: drafter}, rows, config).drafted[name]
            predicted, measured = cost.speedup(costs, alpha, k), one.speedup_decode.value
            found[f"{rows.name}, {name}, K = {k}"] = {
                "predicted": predicted,
                "measured": measured,
                "error": predicted / measured - 1,
                "tau_predicted": cost.expected_tokens(alpha, k),
                "tau_measured": one.acceptance.tau,
                "costs": dataclasses.asdict(costs),
            }
    return found


if __name__ == "__main__":
    typer.run(main)
