"""The whole of a training run: the target, then its drafters, or both at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from draftune import config as configs
from draftune import errors, storage
from draftune.data.task import Task
from draftune.drafters import store
from draftune.drafters.base import Config, Drafter
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target import lora
from draftune.target.target import Target
from draftune.train import answers, device, estimate, loop, plan, provenance, seed, stages
from draftune.train.checkpoint import Snapshot
from draftune.train.config import FREE_SETTINGS, TrainConfig
from draftune.train.estimate import Estimate
from draftune.train.features import FeatureCache, FeatureView
from draftune.train.guard import EXCESS, PLAIN, Gate
from draftune.train.history import History, Record
from draftune.train.loop import Run, Stage
from draftune.train.material import Material, prepare
from draftune.train.progress import Reporter
from draftune.types import Example

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run leaves: the tuned target, its drafters, and how it went."""

    target: Target  # with its adapter unmerged where it has one
    drafters: dict[str, Drafter]
    drafter_configs: dict[str, Config]
    vocabulary: Vocabulary
    history: list[Record]
    summary: dict[str, Any]  # seconds, rows and tokens by stage; nll; tau and alpha_k by drafter; peak memory
    estimate: Estimate | None  # None after a resume


def tune(
    target: Target,
    task: Task,
    config: TrainConfig,
    *,
    folder: Path | str,
    resume: bool = False,
    console: Console | None = None,
) -> Trained:
    """The target tuned for `task` and the drafters trained for exactly that target.

    Checkpoints and the history lie in `folder`/train, where `resume` finds them and goes on to the same numbers.
    The model of the given target is wrapped by its adapter. Raises ConfigError for settings that cannot be honoured,
    DataError for rows that teach nothing, StorageError where something cannot be saved.
    """
    folder, reporter = Path(folder), Reporter(console)
    _claim(folder, resume, reporter)
    choices = drafter_configs(config)
    material = prepare(target, task, config)
    for sentence in (*task.notes, *material.notes):
        reporter.note(sentence)
    target = lora.attach(target, config.adapter) if config.adapter is not None else target
    run = _open(target, task, material, config, folder, resume, reporter)
    drafters = _build(choices, target, material, config)  # an impossible one is refused before the hours, not after
    target, first = _first_stages(target, drafters, material, run)
    guess = None if resume else _estimate(target, drafters, first, material, run)
    ends = _tune_target(target, first, material, run)
    if config.mode == "after" or config.drafter_after_joint:
        frozen = lora.merge(target) if estimate.merges(target) else target
        material = answers.mixed(frozen, material, run)
        if config.mode == "after":
            drafters = _build(choices, target, material, config)
        ends += _train_drafters(frozen, drafters, material, run)
    run.accelerator.end_training()
    return Trained(
        target=target,
        drafters={name: module.eval() for name, module in drafters.items()},
        drafter_configs=choices,
        vocabulary=material.vocabulary,
        history=run.history.records,
        summary=_summary(ends, material, run),
        estimate=guess,
    )


def drafter_configs(config: TrainConfig) -> dict[str, Config]:
    """The configs of the drafters asked for, with the settings that differ from their defaults."""
    made = {}
    for name in config.drafters:
        assignments = [f"{key}={value}" for key, value in config.drafter_settings.get(name, {}).items()]
        settled = configs.override(DRAFTERS.load(name)(), assignments, doing=f"setting up the drafter {name!r}")
        made[name] = settled.for_drafts(config.num_drafts)
    return made


def _claim(folder: Path, resume: bool, reporter: Reporter) -> None:
    """Refuse to write over another run."""
    begun = (folder / "train" / "stages").exists()
    if begun and not resume:
        raise errors.ConfigError(
            doing=f"starting a run in {folder}",
            met="it holds a run already",
            todo="resume that one, or choose another folder",
        )
    if resume and not begun:
        reporter.warn(f"nothing to resume in {folder}: starting from the beginning")


def _open(
    target: Target, task: Task, material: Material, config: TrainConfig, folder: Path, resume: bool, reporter: Reporter
) -> Run:
    settings = {name: value for name, value in configs.to_dict(config).items() if name not in FREE_SETTINGS}
    data_hash = material.fingerprint()
    identity = {"settings": settings, "data": data_hash, "target": target.fingerprint()}
    chosen = device.precision(config.precision, target.device, target.dtype)
    identity["precision"] = [str(target.dtype), chosen]
    accelerator = device.accelerator(config, target.device, target.dtype, folder / "train")
    card = provenance.card(config, target, task.name, data_hash) | {"fingerprint": identity["target"]}
    storage.write(folder / "run.json", (json.dumps(card, indent=2) + "\n").encode(), doing="writing run.json")
    device.start_trackers(accelerator, settings)
    return Run(
        config=config,
        folder=folder / "train",
        accelerator=accelerator,
        history=History(folder / "train" / "history.jsonl"),
        reporter=reporter,
        identity=identity,
        resume=resume,
        device=target.device,
    )


def _build(
    choices: Mapping[str, Config], target: Target, material: Material, config: TrainConfig
) -> dict[str, Drafter]:
    """Fresh drafters in fp32 for this target."""
    made, parts = {}, target.parts()
    for name, choice in choices.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed.derive(config.seed, "drafter", name))
            module = choice.build(parts, material.vocabulary).float().to(target.device)
        if module.max_drafts is not None and module.max_drafts < config.num_drafts:
            raise errors.ConfigError(
                doing=f"setting up the drafter {name!r}",
                met=f"num_drafts = {config.num_drafts} where it can draft {module.max_drafts}",
                todo="lower num_drafts or give the drafter more heads",
            )
        if config.mode == "joint" and not module.trainable:
            met = f"{name!r} has nothing to train"
            raise errors.ConfigError(doing="training jointly", met=met, todo="use mode 'after' for it")
        if config.start_from is not None and module.trainable:
            ids = material.vocabulary.ids
            with torch.no_grad():
                store.begin_from(Path(config.start_from), module, name, choice, parts, ids)
        made[name] = module
    return made


def _first_stages(
    target: Target, drafters: Mapping[str, Drafter], material: Material, run: Run
) -> tuple[Target, list[Stage]]:
    """The target with a fresh adapter, and the stages that train it; none for one that is tuned already.

    Each begins with the fresh adapter and the last one counts: plain LoRA comes first where joint training is guarded.
    """
    if run.config.adapter is not None or run.config.adapter_epochs == 0:
        return target, []
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        torch.manual_seed(seed.derive(run.config.seed, "adapter"))
        target = lora.add(target, run.config.lora)
    plain = [stages.adapter(target, material, run)]
    if run.config.mode == "after":
        return target, plain
    joint = stages.joint(target, next(iter(drafters.values())), material, run)
    return target, [*(plain if run.config.guard is not None else []), joint]


def _estimate(
    target: Target, drafters: Mapping[str, Drafter], first: list[Stage], material: Material, run: Run
) -> Estimate:
    """What the run will take, said to the person who waits. Raises ConfigError where it cannot fit the device."""
    guess = estimate.measure(target, drafters, first, material, run)
    for sentence in guess.sentences():
        run.reporter.note(sentence)
    if warning := guess.warning():
        run.reporter.warn(warning)
    if run.config.check_memory:
        guess.check()
    return guess


def _tune_target(target: Target, first: list[Stage], material: Material, run: Run) -> list[Snapshot]:
    """The ends of the stages that train the target; of one that is tuned already, its likelihoods alone."""
    if first:
        fresh = {name: tensor.clone() for name, tensor in lora.adapter_state(target).items()}
        ends = []
        for stage in first:
            lora.load_adapter_state(target, fresh)
            ends.append(loop.train(stage, run))
        _tell(Gate(run.config, run.history), run)
        return ends
    records: list[Record] = []
    for step, base in ((0, True), (1, False)):
        with lora.without(target) if base else nullcontext():
            figures = stages.likelihood(target, material, run, step)
        if base and not lora.has_adapter(target):
            continue  # its base is not known
        records.append({"kind": "evaluation", "stage": PLAIN, "step": step, "progress": step} | figures)
    for record in records:
        run.history.add(record)
        run.reporter.evaluation(record)
    return [Snapshot(stage=PLAIN, step=0, weights={}, history=records)]


def _tell(gate: Gate, run: Run) -> None:
    """Say what the guard found."""
    found = gate.summary()
    if found is None:
        return
    words = f"held-out nll is {found[EXCESS]:+.1%} of plain LoRA's, where the guard allows {run.config.guard:+.1%}"
    stopped = ", ".join(map(str, found["stopped_after_steps"]))
    run.reporter.note(f"joint: {words}" + (f"; the draft gradient was stopped after step {stopped}" if stopped else ""))


def _train_drafters(frozen: Target, drafters: Mapping[str, Drafter], material: Material, run: Run) -> list[Snapshot]:
    """Every drafter on the same frozen target, whose features and held-out answers are made once."""
    config = run.config
    learning = {name: module for name, module in drafters.items() if module.trainable}
    if not learning or config.drafter_epochs == 0:
        return []
    rows = [_all_learned(one) for one in material.drafter] if config.draft_prompts else material.drafter
    lengths = [len(example.tokens) for example in rows]
    sizes = (config.drafter_batch_size, config.max_batch_tokens)
    groups = plan.batches(lengths, range(len(lengths)), *sizes, config.seed, "features")
    cache = FeatureCache(
        frozen,
        rows,
        estimate.union_of_taps(learning.values()),
        groups,
        whole=any(module.needs_prompt_features for module in learning.values()),
        limit_bytes=config.feature_cache_bytes,
    )
    judge = stages.own_answers(frozen, material, run, *learning.values())
    ends = []
    for name, module in learning.items():
        names = (config.seed, f"drafter:{name}")
        steps = plan.Plan(lengths, config.drafter_epochs, *sizes, *names, first=groups, kept=cache.kept)
        view = FeatureView(cache, module.taps)
        ends.append(loop.train(stages.drafter(name, module, view, steps, judge, material, run), run))
    return ends


def _all_learned(example: Example) -> Example:
    """Every token but the first, which nothing comes before."""
    return replace(example, learned=(False,) + (True,) * (len(example.tokens) - 1))


def _summary(ends: list[Snapshot], material: Material, run: Run) -> dict[str, Any]:
    """The run in figures: time, rows and tokens by stage, likelihoods, acceptance by drafter, memory."""
    summary: dict[str, Any] = {"stages": {}, "nll": {}, "acceptance": {}}
    for end in ends:
        judged = [record for record in end.history if record["kind"] == "evaluation"]
        tokens = sum(record.get("tokens", 0) for record in end.history)
        summary["stages"][end.stage] = {"seconds": end.elapsed_s, "steps": end.step, "tokens": tokens}
        likelihoods = [record for record in judged if "nll" in record]
        if likelihoods:
            known = {"base": likelihoods[0]["nll"]} if likelihoods[0]["step"] == 0 else {}
            plain = {"plain": summary["nll"]["tuned"]} if summary["nll"] else {}
            summary["nll"] = known | plain | {"tuned": likelihoods[-1]["nll"]}
        if judged and "tau" in judged[-1]:
            name = end.stage.partition(":")[2] or run.config.drafters[0]
            figures = {key: value for key, value in judged[-1].items() if key == "tau" or key.startswith("alpha_")}
            summary["acceptance"][name] = summary["stages"][end.stage]["acceptance"] = figures
    summary["guard"] = Gate(run.config, run.history).summary()
    answered = [record for record in run.history.records if record["kind"] == "answers"]
    summary["answers"] = {"rows": answered[-1]["step"], "seconds": answered[-1]["seconds"]} if answered else None
    summary["rows"] = {"adapter": len(material.adapter), "drafter": len(material.drafter)}
    summary["vocabulary"] = material.vocabulary.size
    summary["data"] = run.identity["data"]
    summary["peak_memory_bytes"] = device.peak_memory_bytes(run.device)
    return summary
