"""Where a run comes from: arguments, versions, seed, data, the commit of the folder it was started in."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from importlib import metadata
from typing import Any

from draftune import config as configs
from draftune.target.target import Target
from draftune.train.config import TrainConfig

PACKAGES = ("draftune", "torch", "transformers", "peft", "accelerate", "datasets", "safetensors")


def card(config: TrainConfig, target: Target, task_name: str, data_hash: str) -> dict[str, Any]:
    """What `run.json` holds."""
    return {
        "command": sys.argv,
        "arguments": configs.to_dict(config),
        "seed": config.seed,
        "task": task_name,
        "data": data_hash,
        "target": {"name": target.name, "dtype": str(target.dtype), "device": str(target.device)},
        "versions": {name: _version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "platform": platform.platform(),
        "git": git_id(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def git_id() -> str | None:
    """The commit of the current folder, None outside a repository."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
