"""The benchmark scripts run, on a bundle that is small enough to prove it here; their figures mean nothing."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT


def script(name: str) -> ModuleType:
    folder = str(ROOT / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def kept(out: Path) -> dict:
    (path,) = out.glob("*.json")
    whole = json.loads(path.read_text())
    assert whole["command"]
    assert whole["cpu"]
    return whole


@pytest.mark.filterwarnings("ignore:decoding with the general runner")
def test_batches(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("batches")
    monkeypatch.setattr(module, "SIZES", (1, 3))
    module.main(bundle, "medusa", None, "float32", prompts=4, num_drafts=3, max_new_tokens=8, out=tmp_path)
    sizes = kept(tmp_path)["sizes"]
    assert sizes["3"]["identical"] == sizes["3"]["identical_adaptive"] == 4
    assert list(tmp_path.glob("*.png"))


@pytest.mark.filterwarnings("ignore:decoding with the general runner")
def test_prediction(bundle: Path, tmp_path: Path) -> None:
    script("prediction").main([bundle], None, "float32", prompts=3, max_new_tokens=8, num_drafts=[2], out=tmp_path)
    found = kept(tmp_path)["found"]
    assert len(found) == 2
    one = next(iter(found.values()))
    assert one["error"] == pytest.approx(one["predicted"] / one["measured"] - 1)


def test_gpu_script_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("gpu")
    small = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}
    monkeypatch.setattr(module, "SHAPE", module.SHAPE | small | {"num_key_value_heads": 2})
    monkeypatch.setattr(module, "COPIED", 1024)
    monkeypatch.setattr(module, "CONTEXT", 20)
    module.main("cpu", None, "semiar-gru", 2, vocabulary=32, layers=2, turns=2, out=tmp_path)
    whole = kept(tmp_path)
    assert len(whole["seconds"]) == 4
    assert whole["share_of_limit"]["general, plain step"] > 0


@pytest.mark.filterwarnings("ignore:decoding with the general runner")
def test_vocabulary(bundle: Path, tmp_path: Path) -> None:
    module = script("vocabulary")
    module.main(bundle, "semiar-lstm", None, [8], "float32", prompts=2, num_drafts=3, max_new_tokens=8, out=tmp_path)
    sizes = kept(tmp_path)["sizes"]
    assert len(sizes) == 2
    assert "8" in sizes
