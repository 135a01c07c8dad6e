"""Whatever happens while a checkpoint is written, one that can be read is there."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from draftune import errors
from draftune.train import checkpoint
from draftune.train.checkpoint import Checkpoints, Snapshot

IDENTITY = {"settings": {"lr_drafter": 1e-3, "lora": {"rank": 8}}, "data": "aa", "target": "bb"}


def snapshot(step: int, size: int = 1000) -> Snapshot:
    return Snapshot(
        stage="adapter",
        step=step,
        weights={"a": torch.full((size,), float(step)), "ids": torch.arange(3)},
        optimizer={"0.exp_avg": torch.full((size,), step / 3)},
        history=[{"kind": "step", "stage": "adapter", "step": number} for number in range(1, step + 1)],
        elapsed_s=1.5 * step,
    )


def opened(folder: Path, said: list[str] | None = None, **changes: Any) -> Checkpoints:
    return Checkpoints(folder, IDENTITY | changes, (said if said is not None else []).append)


def same(left: Snapshot | None, right: Snapshot) -> bool:
    plain = ("stage", "step", "history", "elapsed_s", "cut")
    return (
        left is not None
        and all(getattr(left, name) == getattr(right, name) for name in plain)
        and all(torch.equal(left.weights[name], value) for name, value in right.weights.items())
        and all(torch.equal(left.optimizer[name], value) for name, value in right.optimizer.items())
    )


def test_the_newest_comes_back_and_two_are_kept(tmp_path: Path) -> None:
    checkpoints = opened(tmp_path)
    assert checkpoints.newest() is None
    for step in (5, 10, 15):
        checkpoints.save(snapshot(step))
    assert same(opened(tmp_path).newest(), snapshot(15))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000015"]


def test_the_finished_one_replaces_the_rest(tmp_path: Path) -> None:
    checkpoints = opened(tmp_path)
    checkpoints.save(snapshot(5))
    assert checkpoints.finished() is None
    checkpoints.save(snapshot(7), finished=True)
    assert same(opened(tmp_path).finished(), snapshot(7))
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_a_damaged_one_is_passed_over_and_said(tmp_path: Path) -> None:
    checkpoints, said = opened(tmp_path), []
    for step in (5, 10):
        checkpoints.save(snapshot(step))
    weights = tmp_path / "step-00000010" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert same(opened(tmp_path, said).newest(), snapshot(5))
    assert "step-00000010" in said[0]
    opened(tmp_path).save(snapshot(10))  # training comes by again
    assert same(opened(tmp_path).newest(), snapshot(10))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"settings": {"lr_drafter": 2e-3, "lora": {"rank": 4}}},
            "settings.lora.rank was 8 and is now 4; resume with what it was started with",
        ),
        ({"settings": {"lr_drafter": 2e-3, "lora": {"rank": 8}}}, "settings.lr_drafter was 0.001 and is now 0.002"),
        ({"data": "cc"}, "data was 'aa' and is now 'cc'"),
        ({"target": "cc"}, "target was 'bb' and is now 'cc'"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_another_run_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str, finished: bool) -> None:
    opened(tmp_path).save(snapshot(5), finished=finished)
    other = opened(tmp_path, **changes)
    with pytest.raises(errors.ConfigError) as caught:
        other.finished() if finished else other.newest()
    assert sentence in str(caught.value)


def test_an_optimizer_goes_on_where_it_was() -> None:
    def step(weight: torch.nn.Parameter, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        (weight.sin().sum() ** 2).backward()
        optimizer.step()

    weight = torch.nn.Parameter(torch.arange(4.0))
    optimizer = torch.optim.AdamW([weight], fused=True)
    for _ in range(3):
        step(weight, optimizer)
    copy = torch.nn.Parameter(weight.detach().clone())
    again = torch.optim.AdamW([copy], fused=True)
    checkpoint.load_optimizer_state(again, {k: v.clone() for k, v in checkpoint.optimizer_state(optimizer).items()})
    step(weight, optimizer)
    step(copy, again)
    assert torch.equal(weight, copy)


@contextmanager
def full_disk(after_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_one_before(tmp_path: Path) -> None:
    checkpoints = opened(tmp_path)
    checkpoints.save(snapshot(5))
    with full_disk(after_bytes=20_000), pytest.raises(errors.StorageError) as caught:
        checkpoints.save(snapshot(10, size=100_000))
    assert "saving the checkpoint" in str(caught.value)
    assert "what was saved before is intact" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"], "what was written in vain is removed"
    assert same(opened(tmp_path).newest(), snapshot(5))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("finished", [False, True])
def test_a_kill_at_every_touch_of_the_disk(tmp_path: Path, finished: bool) -> None:
    """The process dies at the first, second, third .. time it opens, makes, renames or removes something."""
    touches = 0
    for step in (5, 10):
        opened(tmp_path / "before").save(snapshot(step))
    while True:
        touches += 1
        folder = tmp_path / str(touches)
        shutil.copytree(tmp_path / "before", folder)
        child = os.fork()
        if child == 0:
            _die_at(touches)
            opened(folder).save(snapshot(15), finished=finished)
            os._exit(0)
        survived = os.waitpid(child, 0)[1] == 0
        for path in folder.glob("[!.]*"):
            checkpoint.read(path)  # none is unreadable
        last = opened(folder).finished() or opened(folder).newest()
        assert same(last, snapshot(15)) or (same(last, snapshot(10)) and not survived)
        assert not list(folder.glob(".*")), "what the kill left is swept away"
        if survived:
            break
    assert touches > 10


def _die_at(touch: int) -> None:
    left = touch

    def hook(event: str, arguments: Any) -> None:
        nonlocal left
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            left -= 1
            if left == 0:
                os._exit(9)

    sys.addaudithook(hook)
