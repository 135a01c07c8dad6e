"""What a killed run needs to go on as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from draftune import errors, storage

KEPT = 2
FINAL = "final"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A stage after some number of steps. The schedule and all randomness follow from `step` and the settings."""

    stage: str
    step: int  # steps done
    weights: dict[str, Tensor]  # of what is trained
    optimizer: dict[str, Tensor] = field(default_factory=dict)  # "3.exp_avg" of the fourth parameter; {} once finished
    history: list[dict[str, Any]] = field(default_factory=list)  # this stage's records
    elapsed_s: float = 0.0
    cut: int | None = None  # groups of rows that a time budget left room for


class Checkpoints:
    """The snapshots of one stage in one folder: the newest two, then the finished one.

    Each is a folder that is written aside, flushed, and renamed, so it is there whole or not at all. `identity`
    tells which run it belongs to: settings, data, target.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        self.folder, self.identity, self.warn = folder, dict(identity), warn

    def save(self, snapshot: Snapshot, *, finished: bool = False) -> None:
        """Keep a snapshot and let go of the oldest. Raises StorageError with the earlier ones intact."""
        folder = self.folder / (FINAL if finished else f"step-{snapshot.step:08d}")
        content = {
            "weights.safetensors": _pack(snapshot.weights),
            "optimizer.safetensors": _pack(snapshot.optimizer),
            "history.jsonl": "".join(json.dumps(record) + "\n" for record in snapshot.history).encode(),
            "state.json": json.dumps(_state(snapshot) | {"identity": self.identity}, indent=2).encode(),
        }
        storage.write_folder(folder, content, doing=f"saving the checkpoint {folder}")
        for old in self._steps()[: None if finished else -KEPT]:
            storage.remove_folder(old)

    def finished(self) -> Snapshot | None:
        """The stage's last word, or None where it has not ended. Raises ConfigError for another run's."""
        folder = self.folder / FINAL
        if not folder.exists():
            return None
        storage.sweep(self.folder)
        snapshot, identity = read(folder)
        check_identity(self.folder, identity, self.identity)
        for old in self._steps():
            storage.remove_folder(old)
        return snapshot

    def newest(self) -> Snapshot | None:
        """The newest snapshot that can be read, or None. One that cannot (a failing disk) is removed."""
        storage.sweep(self.folder)
        for folder in reversed(self._steps()):
            try:
                snapshot, identity = read(folder)
            except errors.StorageError as error:
                self.warn(f"{error} Going on from the one before.")
                storage.remove_folder(folder)
                continue
            check_identity(self.folder, identity, self.identity)
            return snapshot
        return None

    def _steps(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))


def check_identity(folder: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ConfigError naming the first setting in which two runs differ."""
    before, now = _flat(saved), _flat(given)
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            raise errors.ConfigError(
                doing=f"resuming the run in {folder}",
                met=f"{name} was {before.get(name)!r} and is now {now.get(name)!r}",
                todo="resume with what it was started with, or start anew in another folder",
            )


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of an optimizer by "index.name"; its settings come from the config."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}


def load_optimizer_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_state` gave."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _state(snapshot: Snapshot) -> dict[str, Any]:
    big = ("weights", "optimizer", "history")
    return {name: value for name, value in vars(snapshot).items() if name not in big}


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def read(folder: Path) -> tuple[Snapshot, dict[str, Any]]:
    """The snapshot in a folder and the identity of its run. Raises StorageError where it is damaged."""
    try:
        state = json.loads((folder / "state.json").read_text())
        identity = state.pop("identity")
        history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        weights = safetensors.torch.load((folder / "weights.safetensors").read_bytes())
        optimizer = safetensors.torch.load((folder / "optimizer.safetensors").read_bytes())
        return Snapshot(weights=weights, optimizer=optimizer, history=history, **state), identity
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise errors.StorageError(
            doing=f"reading the checkpoint {folder}", met=str(error), todo="remove it, then resume"
        ) from error


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = list(value) if isinstance(value, tuple) else value
    return flat
