"""What a calibration found on this machine, kept in the user's cache so that it is paid for once."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path

from draftune import config as configs
from draftune import errors, storage
from draftune.decode.cost import Costs


def folder() -> Path:
    """Where costs lie, a file for each pair on each machine."""
    return storage.cache_folder() / "costs"


def remembered(pair: tuple[object, ...], measure: Callable[[], Costs]) -> Costs:
    """The costs of a pair of target and drafter: as they were measured here before, or measured now.

    `pair` names everything beside the machine that they depend on. A file that cannot be read or written is no
    reason to fail: then they are measured again next time.
    """
    names = json.dumps([str(part) for part in (*pair, platform.node(), platform.machine())])
    path = folder() / f"{hashlib.sha256(names.encode()).hexdigest()[:16]}.json"
    known = _read(path)
    if known is not None:
        return known
    costs = measure()
    with contextlib.suppress(errors.StorageError):
        storage.write(path, json.dumps(dataclasses.asdict(costs)).encode(), doing="keeping this machine's costs")
    return costs


def _read(path: Path) -> Costs | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return configs.make(Costs, dict(found), doing="reading this machine's costs")
    except (OSError, ValueError, TypeError, errors.DraftuneError):
        return None
