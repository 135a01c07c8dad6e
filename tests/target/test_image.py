"""A packed target kept on the disk says what the target says, to the last bit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from draftune import errors, storage
from draftune.kernels import build
from draftune.target import image
from draftune.target.base import FINAL
from draftune.target.image import Image
from draftune.target.packed.rotary import Frequencies
from draftune.target.target import Target
from tests.target.test_packed import MODELS, model, needs_compiler

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def packed_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own for each test, the compiled kernel apart."""
    monkeypatch.setattr(image, "folder", lambda: tmp_path / "packed")
    return tmp_path / "packed"


def place(name: str, *sources: Path) -> Path:
    return image.place(name, torch.float32, sources)


def kept(target: Target, name: str = "one") -> Path:
    """The file of a target whose packed runner was opened."""
    target.runner("packed", release=True)
    image.keep(target, place(name))
    return place(name)


def opened(path: Path, target: Target) -> Image:
    found = image.read(path, target.tokenizer, target.name)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_it_says_what_the_target_says(name: str, dtype: str) -> None:
    target = model(name, dtype)
    again = opened(kept(target), target)
    assert (again.shape, again.dtype, again.device) == (target.shape, target.dtype, target.device)
    logits = []
    for runner in (target.runner("packed"), again.runner()):
        runner.open(2, 300, (1, FINAL))
        steps = [runner.prefill([list(range(4, 60)), [7]]), runner.forward(torch.arange(10, 18).view(2, 4))]
        logits += [one for step in steps for one in (step.logits, step.features.hidden)]
    for one, other in zip(logits[:4], logits[4:], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["llama", "llama tied", "qwen2 with biases"])
def test_it_lends_what_the_target_lends(name: str) -> None:
    target = model(name)
    lent, again = target.parts(), opened(kept(target), target).parts()
    assert again.shape == lent.shape
    assert torch.equal(again.embedding_VD, lent.embedding_VD)
    assert torch.equal(again.head_VD, lent.head_VD)
    tied = again.head_VD.data_ptr() == again.embedding_VD.data_ptr()
    assert tied is (lent.head_VD.data_ptr() == lent.embedding_VD.data_ptr())
    assert (again.head_bias_V is None) is (lent.head_bias_V is None)


def test_no_runner_but_the_packed_one(packed_folder: Path) -> None:
    target = model("llama")
    again = opened(kept(target), target)
    sentence = "opening the general runner of 'tiny-llama': only its packed weights were read; load the model itself."
    with pytest.raises(errors.TargetError) as met:
        again.runner("general")
    assert str(met.value) == sentence


def test_what_is_not_packed_is_not_kept() -> None:
    image.keep(model("llama"), place("one"))
    assert not place("one").exists()


@pytest.mark.parametrize("name", MODELS)
def test_the_plain_formula_of_positions_is_found(name: str) -> None:
    target = model(name)
    target.runner("packed")
    assert target.packed is not None
    assert isinstance(target.packed.rotary, Frequencies)


def test_a_damaged_file_is_no_file() -> None:
    target = model("llama")
    path = kept(target)
    whole = path.read_bytes()
    for content in (b"", whole[:4], whole[:200], whole[:-1]):
        path.write_bytes(content)
        assert image.read(path, target.tokenizer, target.name) is None
    path.unlink()
    assert image.read(path, target.tokenizer, target.name) is None


def test_a_file_belongs_to_its_sources_and_its_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "adapter_model.safetensors"
    source.write_bytes(b"one")
    os.utime(source, (1, 1))
    found = [place("one", source), image.place("one", torch.bfloat16, [source]), place("other", source)]
    os.utime(source, (2, 2))
    found.append(place("one", source))
    source.write_bytes(b"more")
    os.utime(source, (1, 1))
    found.append(place("one", source))
    source.write_bytes(b"one")
    os.utime(source, (1, 1))
    assert place("one", source) == found[0]
    monkeypatch.setattr(build, "version", lambda: "another")
    found.append(place("one", source))
    assert len(set(found)) == len(found)


def test_what_was_not_used_for_long_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    target = model("llama")
    first = kept(target, "first")
    monkeypatch.setattr(image, "MOST_BYTES", int(2.5 * first.stat().st_size))
    second = kept(target, "second")
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    opened(first, target)  # which counts as a use
    third = kept(target, "third")
    assert [path.exists() for path in (first, second, third)] == [True, False, True]
    monkeypatch.setattr(image, "MOST_BYTES", 1000)
    assert not kept(target, "fourth").exists(), "one that is too large is not kept, and the others stay"
    assert first.exists()


def test_a_disk_that_refuses_is_borne(monkeypatch: pytest.MonkeyPatch, packed_folder: Path) -> None:
    packed_folder.write_text("a file where the folder should be")
    assert not kept(model("llama")).exists()


def test_nothing_is_left_by_a_failed_write(monkeypatch: pytest.MonkeyPatch, packed_folder: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert not kept(model("llama")).exists()
    assert not list(packed_folder.glob(f"{storage.PARTIAL}*"))
