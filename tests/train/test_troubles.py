"""What goes wrong in training is met with a sentence, before the hours are spent where that is possible."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from draftune import errors
from draftune.target import device as devices
from draftune.train import device
from draftune.train.config import TrainConfig
from draftune.train.run import tune
from tests.train import echo
from tests.train.test_checkpoint import full_disk


def refused(folder: Path, kind: type[Exception], config: TrainConfig) -> str:
    with pytest.raises(kind) as caught:
        tune(echo.target(), echo.task(), config, folder=folder)
    return str(caught.value)


def test_impossible_drafters_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    sentence = refused(tmp_path, errors.UnknownNameError, echo.config(drafters=("semiar-gru", "medus")))
    assert "did you mean 'medusa'?" in sentence
    sentence = refused(
        tmp_path,
        errors.ConfigError,
        echo.config(
            drafters=("medusa",), num_drafts=6, drafter_settings={"medusa": {"context.settings.num_drafts": 5}}
        ),
    )
    assert "num_drafts = 6 where it can draft 5" in sentence
    sentence = refused(tmp_path, errors.ConfigError, echo.config(mode="joint", drafters=("lookup",)))
    assert "'lookup' has nothing to train" in sentence
    settings = {"semiar-gru": {"recnt.kind": "state"}}
    sentence = refused(tmp_path, errors.ConfigError, echo.config(drafter_settings=settings))
    assert "did you mean 'recent'" in sentence
    assert not (tmp_path / "train" / "stages").exists()


def test_settings_of_a_drafter_arrive(tmp_path: Path) -> None:
    settings = {"semiar-gru": {"recent.settings.width": 8}}
    config = echo.config(adapter_epochs=0, drafter_epochs=1, drafter_settings=settings)
    out = tune(echo.target(), echo.task(), config, folder=tmp_path)
    assert {weight.shape[-1] for name, weight in out.drafters["semiar-gru"].named_parameters() if "_hh_" in name} >= {8}


def test_a_full_disk_stops_the_run_which_then_goes_on(tmp_path: Path) -> None:
    config = echo.config(checkpoint_steps=1)
    with full_disk(after_bytes=60_000):
        sentence = refused(tmp_path / "full", errors.StorageError, config)
    assert "saving the checkpoint" in sentence
    assert "free some space and try again; what was saved before is intact" in sentence
    assert (tmp_path / "full" / "train" / "stages" / "adapter" / "final").exists(), "what was finished is kept"
    resumed = tune(echo.target(), echo.task(), config, folder=tmp_path / "full", resume=True)
    whole = tune(echo.target(), echo.task(), config, folder=tmp_path / "whole")
    losses = [[one.get("loss") for one in out.history] for out in (resumed, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    sentence = refused(tmp_path, errors.ConfigError, echo.config(lr_adapter=1e200, adapter_epochs=4))
    assert sentence.startswith("training adapter, step ")
    assert "lower its learning rate" in sentence


def test_trackers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    config = echo.config(adapter_epochs=1, drafter_epochs=1, trackers="tensorboard")
    tune(echo.target(), echo.task(), config, folder=tmp_path)
    events = list((tmp_path / "train").rglob("events.out.tfevents*"))
    assert b"adapter/lm" in b"".join(path.read_bytes() for path in events)
    assert "did you mean 'tensorboard'" in refused(
        tmp_path / "other", errors.ConfigError, echo.config(trackers="tensorboard, tensorbord")
    )


def test_one_line_per_evaluation_where_nobody_watches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune(echo.target(), echo.task(), echo.config(), folder=tmp_path)
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if line.startswith("draftune: ")]
    assert [line.split(":")[1].split()[0] for line in lines] == ["adapter"] * 3 + ["drafter"] * 2
    assert "tau" in lines[-1]
    assert "alpha" in lines[-1]


def test_a_console_hears_the_rows_and_the_estimate(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    tune(echo.target(), echo.task(), echo.config(), folder=tmp_path, console=console)
    for words in ("32 examples", "of memory (target", "drafter:semiar-gru step", "tok/s"):
        assert words in text.getvalue()


def test_two_precisions_in_one_process(tmp_path: Path) -> None:
    losses = []
    for precision in ("bf16", "fp32"):
        config = echo.config(drafter_epochs=1, precision=precision)
        out = tune(echo.target(dtype="float32"), echo.task(), config, folder=tmp_path / precision)
        assert out.summary["nll"]["tuned"] < out.summary["nll"]["base"]
        assert {weight.dtype for weight in out.drafters["semiar-gru"].parameters()} == {torch.float32}
        losses.append([one["loss"] for one in out.history if one["kind"] == "step"])
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[0][0] != losses[1][0]
    assert losses[0][-1] != losses[1][-1]


def test_precision_of_a_device() -> None:
    cpu = torch.device("cpu")
    assert device.precision("bf16", cpu, torch.float64) == "fp32", "a model for tests stays exact"
    assert device.precision("bf16", cpu, torch.float32) == "bf16"
    assert device.precision("fp32", cpu, torch.bfloat16) == "fp32"
    native = devices.computes_bfloat16(cpu)
    assert device.precision("auto", cpu, torch.float32) == ("bf16" if native else "fp32")
