"""A bundle speaks a second time from the weights that the first time left packed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from draftune.target import image
from tests.cli.conftest import draftune, tune, write_rows
from tests.target.test_packed import needs_compiler

pytestmark = needs_compiler
PROMPT = "table pets (id, name); what is the name?"
SHORT = ("--max-new-tokens", 12, "--dtype", "float32")
HEAVY = ("peft", "transformers.modeling_utils", "torch._dynamo")


@pytest.fixture(scope="module")
def packable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle whose target the kernel serves."""
    from draftune.target.tiny import save_tiny

    folder = tmp_path_factory.mktemp("packable")
    save_tiny(folder / "model", dtype="float32", hidden_size=64)
    write_rows(folder / "rows.jsonl")
    said = tune(folder / "model", folder / "rows.jsonl", folder / "bundle", "--drafter", "semiar-state")
    assert said.code == 0, said.err
    return folder


@pytest.fixture
def packed_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(image, "folder", lambda: tmp_path / "packed")
    return tmp_path / "packed"


@pytest.mark.parametrize("more", [(), ("--drafter", "none")], ids=["drafted", "plain"])
def test_the_second_time_says_the_same(packable: Path, packed_folder: Path, more: tuple[str, ...]) -> None:
    first = draftune("generate", packable / "bundle", PROMPT, *SHORT, *more)
    [file] = packed_folder.iterdir()
    made = file.stat().st_ino
    second = draftune("generate", packable / "bundle", PROMPT, *SHORT, *more)
    general = draftune("generate", packable / "bundle", PROMPT, *SHORT, *more, "--runner", "general")
    assert first.out.strip()
    assert first == second == general
    assert [one.stat().st_ino for one in packed_folder.iterdir()] == [made]


def test_the_second_time_loads_no_model_code(packable: Path, tmp_path: Path) -> None:
    ask = [str(part) for part in ("generate", packable / "bundle", PROMPT, *SHORT)]
    code = f"import sys\nfrom draftune.cli import app\ntry:\n    app({ask!r})\nfinally:\n" + (
        f"    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "DRAFTUNE_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"},
        )
        said.append((done.stdout, done.stderr.splitlines()[-1]))
    assert said[0][0] == said[1][0] != ""
    assert "peft" in said[0][1]
    assert said[1][1] == "[]"


def test_another_adapter_or_template_is_met_all_the_same(packable: Path, packed_folder: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(packable / "bundle", tmp_path / "bundle"))
    base = Path(shutil.copytree(packable / "model", tmp_path / "model"))
    assert draftune("generate", bundle, PROMPT, *SHORT, "--base", base).code == 0
    template = base / "chat_template.jinja"
    template.write_text(template.read_text().replace("<|im_end|>", "<|im_end|> "))
    said = draftune("generate", bundle, PROMPT, *SHORT, "--base", base)
    assert said.code == 2
    assert "the tokenizer's chat template is not the one that it was tuned with" in said.err
    weights = bundle / "adapter" / "adapter_model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-64:] = bytes(64)
    weights.write_bytes(changed)
    said = draftune("generate", bundle, PROMPT, *SHORT)
    assert said.code == 2
    assert "the adapter in adapter/ is another than its drafters were trained for" in said.err
