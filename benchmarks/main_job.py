"""The main job on one task, measured: tune a model and several drafters, then decode held-out prompts.

    python benchmarks/main_job.py sql --data ../shared/data/sql/sql_create_context_4000.jsonl --work SOMEWHERE

What each stage made is kept in the folder given by --work; a stage that is done is skipped, a broken one goes on where
it was. At the end one JSON of figures, without any row's text, is written beside this file.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from kept import free

from draftune import errors

SETTINGS = "settings.json"
TRAINING = "training.json"
PRECISIONS = ["float32", "bfloat16"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be done; its figures can only be compared with those of an equal job."""

    task: str
    data: str | None
    model: str
    drafters: tuple[str, ...]
    adapter_rows: int
    minutes: float
    prompts: int
    num_drafts: int
    max_new_tokens: int
    adapter_epochs: int = 2
    mode: str = "after"  # or "joint": adapter and drafter in the same steps, then the drafter alone for its minutes

    @property
    def spec(self) -> str:
        """The task as `open_task` takes it."""
        return f"{self.task}:{self.data}" if self.data else self.task


def main(
    task: Annotated[str, typer.Argument(help="A task's name: sql, gsm8k, samsum, chatdoctor, builtin:sql.")],
    work: Annotated[Path, typer.Option(help="Where stages are kept.", file_okay=False)],
    data: Annotated[str | None, typer.Option(help="The task's rows: a file or a folder.")] = None,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = Path(__file__).parent,
    model: Annotated[str, typer.Option(help="The model to tune.")] = "smollm2-135m",
    drafter: Annotated[list[str] | None, typer.Option(help="A drafter; may be given again.")] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="A precision to measure; may be given again.")] = None,
    adapter_rows: Annotated[int, typer.Option(help="Rows for the model's adapter.")] = 600,
    minutes: Annotated[float, typer.Option(help="Training of each drafter.")] = 10.0,
    prompts: Annotated[int, typer.Option(help="Held-out prompts.")] = 40,
    num_drafts: Annotated[int, typer.Option(help="K.")] = 5,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 256,
    adapter_epochs: Annotated[int, typer.Option(help="Passes over the adapter's rows.")] = 2,
    mode: Annotated[str, typer.Option(help="after, or joint with one drafter.")] = "after",
) -> None:
    """Tune, train and measure; print the tables and the path of the JSON."""
    job = Job(
        task=task,
        data=data,
        model=model,
        drafters=tuple(drafter or default_drafters()),
        adapter_rows=adapter_rows,
        minutes=minutes,
        prompts=prompts,
        num_drafts=num_drafts,
        max_new_tokens=max_new_tokens,
        adapter_epochs=adapter_epochs,
        mode=mode,
    )
    try:
        claim(work, job)
        stage(work / TRAINING, train, job, work)
        for precision in dtype or PRECISIONS:
            stage(report_path(work, precision), measure, job, work, precision)
        typer.echo(write(out, job, work, dtype or PRECISIONS))
    except errors.DraftuneError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def default_drafters() -> list[str]:
    """Every semi-autoregressive drafter of the table, and medusa to compare with."""
    from draftune.drafters.table import DRAFTERS

    return [name for name in DRAFTERS.entries() if name.startswith("semiar-")] + ["medusa"]


def claim(work: Path, job: Job) -> None:
    """Make the folder this job's own. Raises ConfigError where another job began in it."""
    settings = dataclasses.asdict(job) | {"drafters": list(job.drafters)}
    path = work / SETTINGS
    if path.exists():
        begun = json.loads(path.read_text())
        odd = [name for name in settings if settings[name] != begun.get(name)]
        if odd:
            met = f"it was begun with {odd[0]} {begun.get(odd[0])!r}, not {settings[odd[0]]!r}"
            raise errors.ConfigError(
                doing=f"going on in {work}", met=met, todo="give the same settings or another folder"
            )
    work.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings, indent=1) + "\n")


def stage(done: Path, action: Callable[..., None], *arguments: Any) -> None:
    """Do a stage unless what it makes is there; in a process of its own, so that its peak of memory is its own."""
    if done.exists():
        typer.echo(f"done before: {done}", err=True)
        return
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(action, *arguments).result()


def train(job: Job, work: Path) -> None:
    """Tune the model and train every drafter for it; leave a bundle and the figures of training."""
    from rich.console import Console

    from draftune.bench import machine
    from draftune.data import open_task
    from draftune.export import bundle
    from draftune.target.load import load
    from draftune.train.config import TrainConfig
    from draftune.train.run import tune

    task, target, run = open_task(job.spec), load(job.model), work / "run"
    config = TrainConfig(
        mode=job.mode,
        drafters=job.drafters,
        adapter_rows=job.adapter_rows,
        adapter_epochs=job.adapter_epochs,
        drafter_epochs=12,  # more than the minutes allow: the clock ends the training, and the learning rate with it
        drafter_minutes=job.minutes,
        drafter_after_joint=job.mode == "joint",
        num_drafts=job.num_drafts,
    )
    base, begun = target.fingerprint(), (run / "train" / "stages").exists()
    trained = tune(target, task, config, folder=run, resume=begun, console=Console(stderr=True))
    packed = {
        name: bundle.Packed(drafter=drafter, config=trained.drafter_configs[name], vocabulary=trained.vocabulary)
        for name, drafter in trained.drafters.items()
    }
    bundle.write(
        work / "bundle",
        trained.target,
        packed,
        num_drafts=job.num_drafts,
        mode=job.mode,
        base=job.model,
        base_fingerprint=base,
        task=job.spec,
        task_fingerprint=task.fingerprint(),
        command=machine.command_line(),
        run=trained.summary,
    )
    replace(work / TRAINING, {"summary": trained.summary, "command": machine.command_line(), "date": machine.now()})


def measure(job: Job, work: Path, precision: str) -> None:
    """Decode the held-out prompts plainly and with every drafter in one precision."""
    from rich.console import Console

    from draftune.bench import BenchConfig, report, table
    from draftune.bench.run import SCORE_NAMES, bench
    from draftune.data import open_task
    from draftune.export import bundle

    opened = bundle.read(work / "bundle", dtype=precision, base=job.model)
    limits = {"num_prompts": job.prompts, "num_drafts": job.num_drafts, "max_new_tokens": job.max_new_tokens}
    config = BenchConfig(**limits, base=precision == PRECISIONS[0])  # the untuned model's score: once is enough
    name, console = SCORE_NAMES[job.mode], Console(stderr=True)
    found = bench(opened.target, opened.drafters, open_task(job.spec), config, name=name, console=console)
    Console().print(table.render(found))
    report.write(found, work / f"report-{precision}")
    replace(report_path(work, precision), found.to_dict())


def report_path(work: Path, precision: str) -> Path:
    """Where the figures of one precision lie until all are there."""
    return work / f"bench-{precision}.json"


def replace(path: Path, data: dict[str, Any]) -> None:
    """Write JSON in one move: a stage whose file is there is whole."""
    from draftune.bench import record

    part = path.with_suffix(".part")
    part.write_text(record.dump(data) + "\n", encoding="utf-8")
    part.replace(path)


def write(out: Path, job: Job, work: Path, precisions: list[str]) -> Path:
    """The path of the job's one JSON, a new file in any case."""
    from draftune.bench import headline, machine, record
    from draftune.bench.record import Report

    found = {precision: json.loads(report_path(work, precision).read_text()) for precision in precisions}
    reports = [Report.from_dict(one) for one in found.values()]
    whole = {
        "format": 1,
        "command": machine.command_line(),
        "date": machine.now(),
        "job": dataclasses.asdict(job),
        "headlines": {precision: headline.sentence(one) for precision, one in zip(found, reports, strict=True)},
        "drafters": {precision: brief(one) for precision, one in zip(found, reports, strict=True)},
        "training": json.loads((work / TRAINING).read_text()),
        "reports": found,
    }
    path = free(out, file_name(job, reports[0]), "json")
    out.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(record.dump(whole) + "\n")
    return path


def brief(report: Any) -> dict[str, dict[str, Any]]:
    """What one looks for first: by drafter tau, times faster, identical answers."""
    return {
        name: {
            "tau": one.acceptance.tau,
            "speedup_decode": one.speedup_decode and one.speedup_decode.value,
            "speedup_total": one.speedup_total and one.speedup_total.value,
            "num_identical": one.identity.num_identical,
            "num_prompts": one.identity.num_prompts,
        }
        for name, one in report.drafted.items()
    }


def file_name(job: Job, report: Any) -> str:
    """Date, target, task, mode and hardware: "2026-01-02-smollm2-135m-sql-amd-epyc-9634-2-cores"."""
    hardware = report.machine.gpu or f"{report.machine.cpu} {report.machine.num_cores} cores"
    mode = "" if job.mode == "after" else job.mode
    words = f"{report.date[:10]} {Path(job.model).name} {Path(job.task).name} {mode} {hardware}".lower()
    words = re.sub(r"\((r|tm)\)|@.*?(?= \d+ cores|$)|\bcpu\b|\bprocessor\b", " ", words)
    return re.sub(r"[^a-z0-9.]+", "-", words).strip("-")


if __name__ == "__main__":
    typer.run(main)
