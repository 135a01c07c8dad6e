"""The guard of joint training: what it lets through, when it stops it, and that a resumed run decides alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from draftune import errors
from draftune.target.lora import LoraSettings
from draftune.train import loop
from draftune.train.guard import EXCESS, Gate, scaled
from draftune.train.history import History
from draftune.train.run import Trained, tune
from tests.train import echo


def config(**settings: Any) -> Any:
    quiet = LoraSettings(modules="q_proj,v_proj")
    return echo.config(**{"mode": "joint", "lora": quiet, "draft_weight": 0.5, "evaluations": 4, **settings})


def steps(out: Trained) -> list[dict[str, Any]]:
    return [one for one in out.history if one["stage"] == "joint" and one["kind"] == "step"]


def evaluation(stage: str, progress: float, **figures: float) -> dict[str, Any]:
    return {"kind": "evaluation", "stage": stage, "step": int(10 * progress), "progress": progress} | figures


def test_the_newest_comparison_decides(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    gate = Gate(config(guard=0.01, joint_warmup=0.2), history)
    assert gate.excess(0.5, 2.0) is None, "plain LoRA is not known"
    assert gate.scale(1, 0.1) == 0, "the drafter warms up"
    assert gate.scale(3, 0.3) == 1
    history.add(evaluation("adapter", 0.5, nll=2.0))
    history.add(evaluation("adapter", 1.0, nll=1.0))
    assert gate.excess(0.5, 2.1) == pytest.approx(0.05)
    for excess, wanted in ((0.05, 0), (0.009, 1), (0.011, 0)):
        history.add(evaluation("joint", 0.5, nll=2.0, **{EXCESS: excess}))
        assert gate.scale(6, 0.6) == wanted
    assert gate.summary() == {EXCESS: 0.011, "stopped_after_steps": [5, 5]}
    assert Gate(config(guard=None), history).scale(6, 0.6) == 1


def test_a_share_of_the_steps(tmp_path: Path) -> None:
    gate = Gate(config(draft_gradient=0.5, draft_gradient_share=0.25), History(tmp_path / "history.jsonl"))
    scales = [gate.scale(index, 0.5) for index in range(400)]
    assert set(scales) == {0.0, 0.5}
    assert 70 < scales.count(0.5) < 130


def test_a_gradient_is_scaled() -> None:
    hidden = torch.ones(3, requires_grad=True)
    for scale in (0.25, 1.0):
        hidden.grad = None
        (scaled(hidden, scale) * torch.arange(3.0)).sum().backward()
        assert hidden.grad is not None
        assert hidden.grad.tolist() == [0.0, scale, 2 * scale]
    assert not scaled(hidden, 0.0).requires_grad


def test_without_a_draft_gradient_joint_is_plain(tmp_path: Path) -> None:
    out = tune(echo.target(), echo.task(), config(draft_gradient=0.0), folder=tmp_path)
    assert out.summary["guard"][EXCESS] == pytest.approx(0, abs=5e-4), "Adam hardly knows the factor of a loss"
    assert out.summary["nll"]["tuned"] == pytest.approx(out.summary["nll"]["plain"], rel=5e-4)
    assert set(out.summary["stages"]) == {"adapter", "joint"}
    assert {one["draft_gradient"] for one in steps(out)} == {0.0}


def test_the_gradient_is_stopped_where_it_costs_quality(tmp_path: Path) -> None:
    out = tune(echo.target(), echo.task(), config(guard=0.0, draft_weight=0.9), folder=tmp_path)
    guard = out.summary["guard"]
    assert guard["stopped_after_steps"], "a draft loss this heavy costs quality"
    closed, seen = False, set()
    for one in out.history:
        if one["stage"] != "joint":
            continue
        if one["kind"] == "evaluation":
            closed = one.get(EXCESS, 0) > 0
        elif one["progress"] >= 0.1:
            assert one["draft_gradient"] == (0 if closed else 1)
            seen.add(closed)
    assert seen == {True, False}


def test_a_resumed_run_decides_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(guard=0.0, draft_weight=0.9, checkpoint_steps=1)
    whole = tune(echo.target(), echo.task(), settings, folder=tmp_path / "whole")
    record = loop._record

    def killed(stage: Any, *others: Any, step: int, **figures: Any) -> None:
        record(stage, *others, step=step, **figures)
        if (stage.name, step) == ("joint", 6):
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_record", killed)
    with pytest.raises(KeyboardInterrupt):
        tune(echo.target(), echo.task(), settings, folder=tmp_path / "killed")
    monkeypatch.setattr(loop, "_record", record)
    resumed = tune(echo.target(), echo.task(), settings, folder=tmp_path / "killed", resume=True)
    assert resumed.summary["guard"] == whole.summary["guard"]
    assert [one["loss"] for one in steps(resumed)] == pytest.approx([one["loss"] for one in steps(whole)], rel=1e-5)


def test_impossible_settings() -> None:
    for settings in ({"guard": -0.1}, {"draft_gradient": -1.0}, {"joint_warmup": 1.5}, {"draft_gradient_share": 2.0}):
        with pytest.raises(errors.ConfigError, match=next(iter(settings))):
            config(**settings)
