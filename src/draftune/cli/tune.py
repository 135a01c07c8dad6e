"""`draftune tune`: rows and a model become a bundle."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftune import errors
from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.data import Task
    from draftune.target.target import Target
    from draftune.train.config import TrainConfig
    from draftune.train.run import Trained

DEFAULT_DRAFTER = "semiar-lstm"


def tune(
    model: Annotated[str, typer.Argument(help="A model folder, hub id, .gguf file or named model.")],
    task: Annotated[str, typer.Argument(help="Rows: a file, a folder, a hub id or a named task.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the bundle to.", file_okay=False)],
    drafter: Annotated[
        list[str] | None,
        typer.Option(help="A drafter; may be given again, the first is the default.", show_default=DEFAULT_DRAFTER),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="after: first the model, then its drafters; joint: both at once.")
    ] = "after",
    adapter: Annotated[
        Path | None, typer.Option(help="A finished peft adapter: kept as it is, only the drafter is trained.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows the model learns from.", show_default="600")] = None,
    drafter_rows: Annotated[int | None, typer.Option(help="Rows a drafter learns from.", show_default="all")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the model's rows; 0 leaves it as it is.", show_default="2")
    ] = None,
    drafter_epochs: Annotated[int | None, typer.Option(help="Passes over a drafter's rows.", show_default="4")] = None,
    drafter_minutes: Annotated[float | None, typer.Option(help="End a drafter's training after this time.")] = None,
    start_from: Annotated[
        Path | None, typer.Option("--from", help="A bundle whose drafters of the same names are trained on.")
    ] = None,
    num_drafts: options.NumDrafts = 5,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
    field: options.Field = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as lora.rank=16 or semiar-lstm.head.kind=mlp.")
    ] = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
) -> None:
    """Fine-tune a model on a task and train its drafters; the bundle's folder is the result.

    Checkpoints lie in OUT.training until the bundle is written. Further settings are those of TrainConfig.
    """
    from draftune.cli import rows as rows_
    from draftune.data import open_task
    from draftune.export import bundle as bundles

    desk.quiet()
    given = {
        "mode": mode,
        "drafters": tuple(drafter or (DEFAULT_DRAFTER,)),
        "adapter": str(adapter) if adapter else None,
        "adapter_rows": rows,
        "start_from": str(start_from) if start_from else None,
        "drafter_rows": drafter_rows,
        "adapter_epochs": epochs,
        "drafter_epochs": drafter_epochs,
        "drafter_minutes": drafter_minutes,
        "num_drafts": num_drafts,
        "seed": seed,
    }
    config = configure({name: value for name, value in given.items() if value is not None}, settings or ())
    bundles.check_free(out)
    fields = rows_.mapping(field)
    opened = open_task(task, mapping=fields or None)
    make(model, opened, config, out, spec=task, fields=fields, resume=resume, dtype=dtype, device=device)
    desk.result(str(out))


def configure(given: Mapping[str, Any], assignments: Sequence[str]) -> TrainConfig:
    """The training settings: those with options of their own, then `--set`, where a drafter's name leads to its own.

    Raises ConfigError or UnknownNameError for what cannot be honoured, before anything is loaded.
    """
    from draftune import config as configs
    from draftune.drafters.table import DRAFTERS
    from draftune.train.config import TrainConfig
    from draftune.train.run import drafter_configs

    doing = "reading the training settings"
    config = configs.make(TrainConfig, given, doing=doing)
    own: dict[str, dict[str, str]] = {}
    others = []
    for assignment in assignments:
        name, _, rest = assignment.partition(".")
        setting, equals, value = rest.partition("=")
        if name in config.drafters and equals:
            own.setdefault(name, {})[setting.strip()] = value.strip()
        elif name in DRAFTERS.entries():
            met, todo = f"{assignment!r} where {name} is not trained", f"add --drafter {name}, or leave it out"
            raise errors.ConfigError(doing=doing, met=met, todo=todo)
        else:
            others.append(assignment)
    config = configs.override(config, others, doing=doing)
    config = configs.make(TrainConfig, configs.to_dict(config) | {"drafter_settings": own}, doing=doing)
    drafter_configs(config)  # an unknown drafter or part is refused here
    return config


def make(
    model: str,
    task: Task,
    config: TrainConfig,
    out: Path,
    *,
    spec: str,
    fields: Mapping[str, str] | None = None,
    resume: bool = False,
    dtype: str = "auto",
    device: str = "auto",
) -> Trained:
    """What the training left, after its bundle has been written to `out` and its checkpoints removed."""
    from draftune.train import run

    target, base, config = _open(model, config, dtype=dtype, device=device)
    base_fingerprint = target.fingerprint()
    work = _work(out)
    try:
        trained = run.tune(target, task, config, folder=work, resume=resume, console=desk.console())
    except errors.DraftuneError:
        if not is_begun(out):
            shutil.rmtree(work, ignore_errors=True)
        raise
    _write(trained, config, out, work, base, base_fingerprint, task=task, spec=spec, fields=fields)
    shutil.rmtree(work, ignore_errors=True)
    return trained


def is_begun(out: Path) -> bool:
    """Whether there are checkpoints of an interrupted run to go on with."""
    return (_work(out) / "train" / "stages").exists()


def _work(out: Path) -> Path:
    return out.absolute().with_name(f"{out.absolute().name}.training")


def _open(model: str, config: TrainConfig, *, dtype: str, device: str) -> tuple[Target, str, TrainConfig]:
    """The base model, where it came from, and the settings; the folder of an adapter means its base with --adapter."""
    import dataclasses

    from draftune.target import load, lora

    target = load.load(model, dtype=dtype, device=device)
    if not lora.has_adapter(target):
        return target, model, config
    if config.adapter is not None:
        raise errors.ConfigError(
            doing=f"tuning {model}", met="it is an adapter, and --adapter names another", todo="give its base model"
        )
    base = target.name
    return load.load(base, dtype=dtype, device=device), base, dataclasses.replace(config, adapter=model)


def _write(
    trained: Trained,
    config: TrainConfig,
    out: Path,
    work: Path,
    base: str,
    base_fingerprint: str,
    *,
    task: Task,
    spec: str,
    fields: Mapping[str, str] | None,
) -> None:
    import json

    from draftune.bench import machine
    from draftune.export import bundle as bundles

    packed = {
        name: bundles.Packed(drafter=module, config=trained.drafter_configs[name], vocabulary=trained.vocabulary)
        for name, module in trained.drafters.items()
    }
    made = json.loads((work / "run.json").read_text(encoding="utf-8"))
    bundles.write(
        out,
        trained.target,
        packed,
        num_drafts=config.num_drafts,
        mode=config.mode,
        base=base,
        base_fingerprint=base_fingerprint,
        task=spec,
        task_fingerprint=task.fingerprint(),
        fields=fields,
        command=machine.command_line(),
        run=made | {"summary": trained.summary},
    )
