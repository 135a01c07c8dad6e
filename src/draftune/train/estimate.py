"""What a run will take, told before it starts: memory from shapes, time from one probed step of each kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from draftune import errors
from draftune.drafters.base import Drafter
from draftune.target import lora
from draftune.target.target import Target
from draftune.train import device, features
from draftune.train.config import TrainConfig
from draftune.train.loop import Run, Stage
from draftune.train.material import Material
from draftune.train.objective import CrossEntropy
from draftune.types import Example

ADAM = 3  # gradient and two moments for each trained value
MERGED_BYTES = 4_000_000_000  # a target up to this size is copied with its adapter folded in, to be heard faster


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Bytes and seconds by what they are for. Rough: read them as a half to twice."""

    memory_bytes: Mapping[str, int]
    seconds: Mapping[str, float]
    free_bytes: int
    device_bytes: int

    @property
    def needed_bytes(self) -> int:
        return sum(self.memory_bytes.values())

    def sentences(self) -> tuple[str, ...]:
        """The estimate in words."""
        parts = ", ".join(f"{name} {_size(size)}" for name, size in self.memory_bytes.items() if size)
        times = ", ".join(f"{name} {_time(seconds)}" for name, seconds in self.seconds.items())
        memory = f"about {_size(self.needed_bytes)} of memory ({parts}), {_size(self.free_bytes)} free"
        return (memory, f"about {_time(sum(self.seconds.values()))} ({times}), evaluations apart")

    def warning(self) -> str | None:
        """A sentence where the run may not fit beside what else is in memory."""
        further = self.needed_bytes - self.memory_bytes["target"]  # which is loaded already
        if further <= self.free_bytes:
            return None
        return f"the run may need {_size(further)} more memory and {_size(self.free_bytes)} is free"

    def check(self) -> None:
        """Raise ConfigError where the run cannot fit the device."""
        if self.needed_bytes > self.device_bytes:
            raise errors.ConfigError(
                doing="estimating the memory of the run",
                met=f"about {_size(self.needed_bytes)} is needed and the device has {_size(self.device_bytes)}",
                todo="lower batch_size, max_length or feature_cache_bytes, or set check_memory=false to try anyway",
            )


def measure(
    target: Target, drafters: Mapping[str, Drafter], first: Sequence[Stage], material: Material, run: Run
) -> Estimate:
    """The estimate of a run whose stages that train the target are `first`."""
    config, seconds = run.config, {}
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        for stage in first:
            seconds[stage.name] = _time_first(stage, run)
        if config.drafter_epochs and (config.mode == "after" or config.drafter_after_joint):
            rows = material.drafter[: config.drafter_batch_size]
            made, feature_s = _timed(lambda: _features(target, rows, drafters), run)
            per_token_s = feature_s / sum(len(example.tokens) for example in rows)
            all_s = per_token_s * sum(len(example.tokens) for example in material.drafter)
            for name, module in drafters.items():
                seconds[f"drafter:{name}"] = _time_drafter(module, rows, made, all_s, material, run)
                all_s = 0.0  # the next drafter finds the features there
    free, whole = device.memory_bytes(run.device)
    memory = _memory(target, drafters, first, material, config)
    return Estimate(memory_bytes=memory, seconds=seconds, free_bytes=free, device_bytes=whole)


def _time_first(stage: Stage, run: Run) -> float:
    batches = stage.plan.epoch(0)
    rows = sorted(batches, key=lambda batch: sum(stage.plan.lengths[row] for row in batch))[len(batches) // 2]
    _, seconds = _timed(lambda: run.accelerator.backward(stage.loss(rows, 0, 1.0).total), run)
    for group in stage.groups:
        _forget_gradients(group.parameters)
    return seconds * stage.plan.total


def _time_drafter(
    module: Drafter, rows: list[Example], hidden: Any, features_s: float, material: Material, run: Run,
) -> float:  # fmt: skip
    """Seconds of a drafter's training whose features take `features_s` to compute."""
    if not module.trainable:
        return 0.0
    config, (taps, whole, hidden_rows) = run.config, hidden
    columns = [taps.index(tap) for tap in module.taps]
    batch = features.assemble(rows, [one[:, columns] for one in hidden_rows], module.taps, whole=whole)

    def step() -> None:
        with run.accelerator.autocast():
            loss = module.loss(batch, CrossEntropy(config.num_drafts, config.decay))
        loss.backward()

    _, seconds = _timed(step, run)
    _forget_gradients(list(module.parameters()))
    steps = config.drafter_epochs * len(material.drafter) / len(rows)
    return min(features_s + seconds * steps, 60 * (config.drafter_minutes or float("inf")))


def _features(target: Target, rows: list[Example], drafters: Mapping[str, Drafter]) -> Any:
    taps = union_of_taps(drafters.values())
    whole = any(module.needs_prompt_features for module in drafters.values())
    return taps, whole, features.compute(target, rows, taps, whole=whole)


def union_of_taps(drafters: Any) -> tuple[int, ...]:
    """Every tap that one of the drafters needs, in a fixed order."""
    return tuple(sorted({tap for module in drafters for tap in module.taps}))


def merges(target: Target) -> bool:
    """Whether a tuned target is copied and merged for its features; a large one is heard as it is.

    Its size alone decides, not the free memory, so that a resumed run hears the same numbers.
    """
    return _bytes(target.model) <= MERGED_BYTES


def _memory(
    target: Target, drafters: Mapping[str, Drafter], first: Sequence[Stage], material: Material, config: TrainConfig
) -> dict[str, int]:
    memory = {"target": _bytes(target.model)}
    if first:
        trained = max(sum(_trained_bytes(group.parameters) for group in stage.groups) for stage in first)
        memory["adapter and optimizer"] = ADAM * trained
        memory["activations"] = _activations(target, material.adapter, config)
    modules = drafters.values()
    memory["drafters"] = sum(_bytes(one) for one in modules)
    memory["their optimizer"] = max((ADAM * _trained_bytes(list(one.parameters())) for one in modules), default=0)
    if config.mode == "after" or config.drafter_after_joint:
        memory["merged copy"] = _bytes(target.model) if lora.has_adapter(target) and merges(target) else 0
        memory["features"] = _feature_bytes(target, drafters, material, config)
    return memory


def _activations(target: Target, examples: Sequence[Example], config: TrainConfig) -> int:
    """Rough: what one decoder layer keeps for its backward pass is about 16 D + 8 I values a token."""
    longest = max(len(example.tokens) for example in examples)
    num_tokens = min(config.batch_size * longest, max(config.max_batch_tokens, longest))
    inner = getattr(target.causal.config, "intermediate_size", 4 * target.shape.hidden_size)
    values = 16 * target.shape.hidden_size + 8 * inner
    share = sum(sum(example.learned) for example in examples) / sum(len(example.tokens) for example in examples)
    logits = 3 * 4 * int(num_tokens * share) * target.shape.vocab_size
    return num_tokens * target.shape.num_layers * values * target.dtype.itemsize + logits


def _feature_bytes(target: Target, drafters: Mapping[str, Drafter], material: Material, config: TrainConfig) -> int:
    whole = any(module.needs_prompt_features for module in drafters.values())
    positions = sum(len(one.tokens) - features.span_start(one, whole) for one in material.drafter)
    taps = len(union_of_taps(drafters.values()))
    return min(positions * taps * target.shape.hidden_size * target.dtype.itemsize, config.feature_cache_bytes)


def _bytes(module: nn.Module) -> int:
    tensors = [*module.parameters(), *module.buffers()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _trained_bytes(parameters: Sequence[nn.Parameter]) -> int:
    return sum(one.numel() * one.element_size() for one in parameters if one.requires_grad)


def _forget_gradients(parameters: Sequence[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


def _timed(call: Callable[[], Any], run: Run) -> tuple[Any, float]:
    """What `call` returns and its seconds, the device's work included."""
    start = time.perf_counter()
    made = call()
    if run.device.type == "cuda":
        torch.cuda.synchronize(run.device)
    return made, time.perf_counter() - start


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
