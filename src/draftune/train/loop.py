"""The training loop, flat: one stage from its first step, or from its newest checkpoint, to its end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from draftune import errors
from draftune.train import checkpoint, schedule, seed
from draftune.train.checkpoint import Checkpoints, Snapshot
from draftune.train.config import TrainConfig
from draftune.train.history import History, Record
from draftune.train.plan import Plan
from draftune.train.progress import Reporter

if TYPE_CHECKING:
    from accelerate import Accelerator

NEW_ROWS_SHARE = 0.6  # of a time budget: after that no new rows are read, and the later passes go over those seen


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What one step found: the value to descend, its terms as (sum, count), the tokens it learned from."""

    total: Tensor  # 0-dim
    terms: Mapping[str, tuple[float, float]]
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """Parameters with a learning rate and a gradient norm of their own."""

    name: str
    parameters: Sequence[nn.Parameter]
    lr: float


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What is trained, on what, and how it is judged."""

    name: str
    plan: Plan
    groups: Sequence[Group]
    loss: Callable[[Sequence[int], int, float], Losses]  # of these rows, in this step (from 0), at this progress
    evaluate: Callable[[float], dict[str, float]]  # held-out figures at this progress 0..1
    weights: Callable[[], dict[str, Tensor]]
    load: Callable[[Mapping[str, Tensor]], None]
    minutes: float | None = None
    borrowed_s: Callable[[], float] = lambda: 0.0  # seconds that others spent on features this stage used
    evaluate_first: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """What all stages of one run share."""

    config: TrainConfig
    folder: Path  # where checkpoints and history lie
    accelerator: Accelerator
    history: History
    reporter: Reporter
    identity: Mapping[str, Any]
    resume: bool
    device: torch.device


@dataclass
class Meter:
    """How far a stage is: by steps, or by the clock where that is further."""

    stage: Stage
    before_s: float  # of earlier processes
    started: float = field(default_factory=time.perf_counter)

    def elapsed_s(self) -> float:
        return self.before_s + time.perf_counter() - self.started

    def spent(self) -> float:
        """Share of the time budget, 0 without one."""
        minutes = self.stage.minutes
        return 0.0 if minutes is None else (self.elapsed_s() + self.stage.borrowed_s()) / (60 * minutes)

    def progress(self, num_steps: int) -> float:
        return min(1.0, max(num_steps / self.stage.plan.total, self.spent()))


def train(stage: Stage, run: Run) -> Snapshot:
    """The finished stage, its weights loaded. Raises StorageError where it could not be saved."""
    checkpoints = open_checkpoints(stage.name, run)
    done = checkpoints.finished() if run.resume else None
    if done is not None:
        stage.load(done.weights)
        run.history.extend(done.history)
        return done
    optimizer = _optimizer(stage, run)
    state = _start(stage, checkpoints, optimizer, run)
    meter, step, saved = Meter(stage, state.elapsed_s), state.step, time.perf_counter()
    if stage.evaluate_first and step == 0:
        _evaluate(stage, run, step, 0.0)
    with _noise_of_our_own(run.device), run.reporter.stage(stage.name, meter.progress(step)):
        before = meter.progress(step)
        for index, epoch, rows in stage.plan.steps(step):
            started = time.perf_counter()
            torch.manual_seed(seed.derive(run.config.seed, stage.name, index))
            progress, step = meter.progress(index + 1), index + 1
            rates = _set_rates(optimizer, stage, progress, run.config)
            losses = stage.loss(rows, index, progress)
            _check(losses, stage, index)
            norms = _update(stage, optimizer, losses, run)
            seconds = time.perf_counter() - started
            _record(stage, run, losses, rates | norms, step=step, epoch=epoch, progress=progress, seconds=seconds)
            _cut_first_pass(stage, meter, epoch, step)
            if _crossed(before, progress, run.config.evaluations):
                _evaluate(stage, run, step, progress)
            if progress >= 1:
                break
            before = progress
            if _due(step, saved, run.config):
                checkpoints.save(_snapshot(stage, run, step, meter, optimizer))
                saved = time.perf_counter()
    final = _snapshot(stage, run, step, meter)
    checkpoints.save(final, finished=True)
    return final


def open_checkpoints(name: str, run: Run) -> Checkpoints:
    """The checkpoints of the stage of this name."""
    return Checkpoints(run.folder / "stages" / name.replace(":", "-"), run.identity, run.reporter.warn)


def _optimizer(stage: Stage, run: Run) -> torch.optim.Optimizer:
    groups = [{"params": list(group.parameters), "lr": group.lr} for group in stage.groups]
    fused = run.device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, weight_decay=run.config.weight_decay, fused=fused)


def _start(stage: Stage, checkpoints: Checkpoints, optimizer: torch.optim.Optimizer, run: Run) -> Snapshot:
    """Where to go on: the newest checkpoint, loaded, or the beginning."""
    snapshot = checkpoints.newest() if run.resume else None
    if snapshot is None:
        return Snapshot(stage=stage.name, step=0, weights={})
    stage.load(snapshot.weights)
    checkpoint.load_optimizer_state(optimizer, snapshot.optimizer)
    if snapshot.cut is not None:
        stage.plan.cut_first(snapshot.cut)
    run.history.extend(snapshot.history)
    run.reporter.note(f"{stage.name}: resuming after step {snapshot.step}")
    return snapshot


def _noise_of_our_own(device: torch.device) -> Any:
    """A block whose random numbers leave the caller's generator as it was."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def _set_rates(
    optimizer: torch.optim.Optimizer, stage: Stage, progress: float, config: TrainConfig
) -> dict[str, float]:
    share = schedule.factor(progress, warmup=config.warmup, final=config.final_lr)
    for settings, group in zip(optimizer.param_groups, stage.groups, strict=True):
        settings["lr"] = group.lr * share
    return {f"lr_{group.name}": group.lr * share for group in stage.groups}


def _update(stage: Stage, optimizer: torch.optim.Optimizer, losses: Losses, run: Run) -> dict[str, float]:
    """Descend; the gradient norms before clipping by name."""
    optimizer.zero_grad(set_to_none=True)
    run.accelerator.backward(losses.total)
    norms = {}
    for group in stage.groups:
        norm = run.accelerator.clip_grad_norm_(list(group.parameters), run.config.clip)
        norms[f"norm_{group.name}"] = float(norm) if norm is not None else math.nan
    optimizer.step()
    return norms


def _check(losses: Losses, stage: Stage, index: int) -> None:
    value = float(losses.total.detach())
    if not math.isfinite(value):
        raise errors.ConfigError(
            doing=f"training {stage.name}, step {index + 1}",
            met=f"the loss is {value}",
            todo="lower its learning rate, or train with precision fp32",
        )


def _record(
    stage: Stage, run: Run, losses: Losses, figures: Mapping[str, float], *, step: int, epoch: int, progress: float,
    seconds: float,
) -> None:  # fmt: skip
    means = {name: total / count for name, (total, count) in losses.terms.items() if count}
    record: Record = {"kind": "step", "stage": stage.name, "step": step, "epoch": epoch, "progress": progress}
    record |= {"loss": float(losses.total.detach())} | means | dict(figures)
    record |= {"tokens": losses.num_tokens, "seconds": seconds, "tokens_per_s": losses.num_tokens / seconds}
    run.history.add(record)
    run.reporter.step(record)
    _track(run, record, {"loss", "tokens_per_s", *means, *figures})


def _evaluate(stage: Stage, run: Run, step: int, progress: float) -> None:
    started = time.perf_counter()
    figures = stage.evaluate(progress)
    record: Record = {"kind": "evaluation", "stage": stage.name, "step": step, "progress": progress} | figures
    record["seconds"] = time.perf_counter() - started
    run.history.add(record)
    run.reporter.evaluation(record)
    _track(run, record, set(figures))


def _track(run: Run, record: Record, names: set[str]) -> None:
    if run.config.trackers:
        values = {f"{record['stage']}/{name}": record[name] for name in names}
        run.accelerator.log(values, step=record["step"])


def _cut_first_pass(stage: Stage, meter: Meter, epoch: int, step: int) -> None:
    """Read no new rows once the time for them is spent, so that what was read is learned from more than once."""
    plan = stage.plan
    open_ended = stage.minutes is not None and plan.first is not None and plan.cut is None
    if open_ended and epoch == 0 and plan.epochs > 1 and meter.spent() >= NEW_ROWS_SHARE:
        plan.cut_first(step)


def _crossed(before: float, now: float, evaluations: int) -> bool:
    return int(now * evaluations) > int(before * evaluations)


def _due(step: int, saved: float, config: TrainConfig) -> bool:
    by_steps = config.checkpoint_steps is not None and step % config.checkpoint_steps == 0
    return by_steps or time.perf_counter() - saved >= config.checkpoint_s


def _snapshot(
    stage: Stage, run: Run, step: int, meter: Meter, optimizer: torch.optim.Optimizer | None = None
) -> Snapshot:
    return Snapshot(
        stage=stage.name,
        step=step,
        weights=stage.weights(),
        optimizer={} if optimizer is None else checkpoint.optimizer_state(optimizer),
        history=run.history.of(stage.name),
        elapsed_s=meter.elapsed_s(),
        cut=stage.plan.cut,
    )
