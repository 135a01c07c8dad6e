"""A run that was killed goes on to the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftune import errors
from draftune.train.run import tune
from tests.conftest import ROOT
from tests.train import echo


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_ten_kills(tmp_path: Path) -> None:
    """Kill -9 at a random step, ten times: every checkpoint is readable, every resume ends where no kill would."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.train.killing", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    whole, trials = found["whole"], found["trials"]
    assert sum(trial["killed"] for trial in trials) >= 7, "nearly all were killed before their end"
    assert len({trial["checkpoints"] for trial in trials}) > 1, "at different stages"
    for trial in trials:
        assert trial["end"]["losses"][-1][2] == pytest.approx(whole["losses"][-1][2], abs=1e-6)
        assert trial["end"] == whole, "to the last bit, with one thread"


def test_a_finished_run_is_found_finished(tmp_path: Path) -> None:
    first = tune(echo.target(), echo.task(), echo.config(), folder=tmp_path)
    again = tune(echo.target(), echo.task(), echo.config(), folder=tmp_path, resume=True)
    assert again.history == first.history
    assert again.summary["acceptance"] == first.summary["acceptance"]
    assert (tmp_path / "train" / "history.jsonl").read_text().splitlines() == [json.dumps(one) for one in first.history]

    with pytest.raises(errors.ConfigError, match="it holds a run already; resume that one, or choose another folder"):
        tune(echo.target(), echo.task(), echo.config(), folder=tmp_path)
    with pytest.raises(errors.ConfigError, match=r"settings.lr_drafter was 0.001 and is now 0.01"):
        tune(echo.target(), echo.task(), echo.config(lr_drafter=0.01), folder=tmp_path, resume=True)
    with pytest.raises(errors.ConfigError, match=r"data was '\w+' and is now '\w+'"):
        tune(echo.target(), echo.task(33), echo.config(), folder=tmp_path, resume=True)
    with pytest.raises(errors.ConfigError, match=r"target was '\w+' and is now '\w+'"):
        tune(echo.target(seed=1), echo.task(), echo.config(), folder=tmp_path, resume=True)
    tune(echo.target(), echo.task(), echo.config(checkpoint_s=1.0), folder=tmp_path, resume=True)  # changes no number


def test_nothing_to_resume_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = echo.config(adapter_epochs=1, drafters=())
    out = tune(echo.target(), echo.task(), config, folder=tmp_path, resume=True)
    assert "nothing to resume" in capsys.readouterr().err
    assert out.summary["stages"]["adapter"]["steps"] == 4
