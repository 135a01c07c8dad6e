"""The estimate says what is needed, warns where it is tight, refuses where it cannot fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftune import errors
from draftune.train.estimate import Estimate
from draftune.train.run import tune
from tests.train import echo


def guess(free_bytes: float, device_bytes: float) -> Estimate:
    return Estimate(
        memory_bytes={"target": 3 * 10**9, "features": 10**9},
        seconds={"adapter": 90.0, "drafter:medusa": 30.0},
        free_bytes=int(free_bytes),
        device_bytes=int(device_bytes),
    )


def test_words() -> None:
    assert guess(2e9, 8e9).sentences() == (
        "about 4.0 GB of memory (target 3.0 GB, features 1.0 GB), 2.0 GB free",
        "about 2.0 min (adapter 1.5 min, drafter:medusa 30 s), evaluations apart",
    )


def test_room() -> None:
    assert guess(2e9, 8e9).warning() is None, "the target is in memory already"
    assert guess(5e8, 8e9).warning() == "the run may need 1.0 GB more memory and 0.5 GB is free"
    guess(5e8, 8e9).check()
    with pytest.raises(errors.ConfigError, match=r"about 4.0 GB is needed and the device has 3.5 GB; lower batch_size"):
        guess(1e9, 3.5e9).check()


def test_of_a_run(tmp_path: Path) -> None:
    config = echo.config(drafters=("semiar-gru", "medusa"), drafter_minutes=0.5)
    found = tune(echo.target(), echo.task(), config, folder=tmp_path).estimate
    assert found is not None
    assert set(found.seconds) == {"adapter", "drafter:semiar-gru", "drafter:medusa"}
    assert all(0 < seconds <= 60 for seconds in found.seconds.values())
    parameters = sum(weight.numel() for weight in echo.target().model.parameters())
    assert parameters * 8 < found.memory_bytes["target"] < parameters * 9, "float64, and a small adapter"
    assert all(size > 0 for size in found.memory_bytes.values())
