"""What every test may ask for. The suite is offline: a hub is never asked, a library that tries fails at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_configure() -> None:
    """Settle what libraries read at import, before any test imports them."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("MPLBACKEND", "agg")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real task data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("DRAFTUNE_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real task data is not at {folder}; set DRAFTUNE_SHARED_DATA to its folder")
    return folder
