"""A tuning that was killed goes on where it was and writes the same bundle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.conftest import QUICK, tune


def test_killed_and_resumed(home: Path, bundle: Path, tmp_path: Path) -> None:
    out, work = tmp_path / "bundle", tmp_path / "bundle.training"
    drafters = ["--drafter", "semiar-lstm", "--drafter", "medusa"]
    sets = [part for setting in (*QUICK, "checkpoint_steps=1") for part in ("--set", setting)]
    command = ["tune", str(home / "model"), str(home / "rows.jsonl"), "--out", str(out), *drafters, *sets]
    command += ["--epochs", "1", "--drafter-epochs", "1", "--dtype", "float32"]
    run = subprocess.Popen([sys.executable, "-c", "from draftune.cli import main; main()", *command])
    deadline = time.monotonic() + 120
    while not list(work.glob("train/stages/*/step-*")) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "killed before it was done"
    assert not out.exists()
    said = tune(home / "model", home / "rows.jsonl", out, *drafters, "--resume")
    assert said.code == 0, said.err
    assert os.listdir(tmp_path) == ["bundle"]
    for part in ("adapter/adapter_model", "drafter/model", "drafters/medusa/model"):
        assert (out / f"{part}.safetensors").read_bytes() == (bundle / f"{part}.safetensors").read_bytes(), part
