"""Ten runs killed at random moments and resumed; prints what each came to. Run by test_resume in its own process.

The trainings are forks of this process, which itself only waits and kills, so that torch is imported once.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from draftune import errors
from draftune.target import lora
from draftune.train import checkpoint, heldout, material
from draftune.train.run import tune
from tests.train import echo

SETTINGS: dict[str, Any] = {
    "adapter_rows": 12,
    "checkpoint_steps": 1,
    "evaluations": 1,
    "eval_rows": 2,
    "nll_rows": 2,
    "eval_max_new_tokens": 4,
}


def train(folder: Path, resume: bool) -> None:
    """One training, in a fork; its end is written beside its folder."""
    torch.set_num_threads(1)
    out = tune(echo.target(), echo.task(24, 2), echo.config(**SETTINGS), folder=folder, resume=resume)
    losses = [[one["stage"], one["step"], one["loss"]] for one in out.history if one["kind"] == "step"]
    digest = hashlib.sha256()
    for tensors in (lora.adapter_state(out.target), out.drafters["semiar-gru"].state_dict()):
        for name in sorted(tensors):
            digest.update(tensors[name].numpy().tobytes())
    folder.with_suffix(".json").write_text(json.dumps({"losses": losses, "weights": digest.hexdigest()}))


def fork(folder: Path, resume: bool) -> int:
    """The process id of a training that has begun."""
    child = os.fork()
    if child == 0:
        try:
            train(folder, resume)
        except errors.DraftuneError as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return child


def kill_after(child: int, folder: Path, num_records: int, pause_s: float) -> bool:
    """True if the training was killed a little after its `num_records`-th record; False if it had ended by then."""
    history = folder / "train" / "history.jsonl"
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if history.exists() and history.read_bytes().count(b"\n") >= num_records:
            time.sleep(pause_s)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.004)
    return False


def readable(folder: Path) -> int:
    """The number of checkpoints; reading them raises StorageError if one is damaged."""
    return len([checkpoint.read(path) for path in folder.glob("train/stages/*/[!.]*")])


def end_of(folder: Path) -> Any:
    return json.loads(folder.with_suffix(".json").read_text())


def import_all() -> None:
    """Load what a training imports on its way, once for all forks."""
    from accelerate import Accelerator

    adapted = lora.add(echo.target())
    heldout.answer(adapted, material.prepare(adapted, echo.task(), echo.config()).requests)
    Accelerator(cpu=True)
    gc.freeze()  # forks share what is loaded


def main(place: Path) -> None:
    import_all()
    draw = random.Random()
    os.waitpid(fork(place / "whole", resume=False), 0)
    whole = end_of(place / "whole")
    trials = []
    for number in range(10):
        folder = place / f"trial{number}"
        records = draw.randrange(len(whole["losses"]))
        killed = kill_after(fork(folder, resume=False), folder, records, draw.uniform(0, 0.03))
        found = readable(folder)
        os.waitpid(fork(folder, resume=True), 0)
        trials.append({"records": records, "killed": killed, "checkpoints": found, "end": end_of(folder)})
    print(json.dumps({"whole": whole, "trials": trials}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
