"""A bundle is written whole, and read only where its parts belong together."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from draftune import errors
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.export import bundle as bundles
from draftune.target import lora
from draftune.target.target import Target
from draftune.target.tiny import save_tiny

NAMES = ("semiar-lstm", "medusa", "lookup")


@dataclass(frozen=True)
class Made:
    """A base model's folder and two bundles of differently tuned targets."""

    home: Path
    one: Path
    other: Path
    target: Target  # of bundle `one`


def tuned(folder: Path, seed: int) -> tuple[Target, str]:
    """The base model with a random adapter, and the base's fingerprint."""
    from draftune.target.load import load

    target = load(str(folder), dtype="float32", device="cpu")
    base_fingerprint = target.fingerprint()
    target = lora.add(target, lora.LoraSettings(rank=2))
    dice = torch.Generator().manual_seed(seed)
    state = {key: torch.randn(value.shape, generator=dice) * 0.1 for key, value in lora.adapter_state(target).items()}
    lora.load_adapter_state(target, state)
    return target, base_fingerprint


def packed(target: Target, names: tuple[str, ...] = NAMES) -> dict[str, bundles.Packed]:
    """Fresh drafters for a target."""
    parts, found = target.parts(), {}
    vocabulary = Vocabulary(torch.arange(3, 40), parts.shape.vocab_size)
    for name in names:
        config = DRAFTERS.load(name)()
        found[name] = bundles.Packed(drafter=config.build(parts, vocabulary), config=config, vocabulary=vocabulary)
    return found


def write(folder: Path, base: Path, seed: int) -> Target:
    """Write a bundle with the adapter of a seed."""
    target, base_fingerprint = tuned(base, seed)
    said = {"base": str(base), "task": "rows.jsonl", "task_fingerprint": "0", "command": "draftune tune"}
    known = {"base_fingerprint": base_fingerprint, "num_drafts": 5, "run": {"seed": seed}}
    bundles.write(folder, target, packed(target), **said, **known)
    return target


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("bundles")
    save_tiny(home / "model", dtype="float32")
    target = write(home / "one", home / "model", 1)
    write(home / "other", home / "model", 2)
    return Made(home, home / "one", home / "other", target)


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> Path:
    """A bundle to be damaged."""
    return Path(shutil.copytree(made.one, tmp_path / "bundle"))


def test_what_is_read_is_what_was_written(made: Made) -> None:
    opened = bundles.read(made.one, dtype="float32", device="cpu")
    assert tuple(opened.drafters) == NAMES
    assert opened.target.fingerprint() == made.target.fingerprint() == opened.card.tuned_fingerprint
    tokens_BT = torch.arange(4, 24)[None]
    wanted, met = (one.model(input_ids=tokens_BT).logits for one in (made.target, opened.target))
    torch.testing.assert_close(met, wanted, rtol=0, atol=0)
    assert json.loads((made.one / "run.json").read_text()) == {"seed": 1}


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_bundle_is_itself_in_every_precision(made: Made, dtype: str) -> None:
    assert bundles.read(made.one, dtype=dtype, device="cpu").target.dtype == getattr(torch, dtype)


def test_only_the_named_drafters_are_loaded(made: Made) -> None:
    assert list(bundles.read(made.one, dtype="float32", drafters=["medusa"]).drafters) == ["medusa"]
    assert not bundles.read(made.one, dtype="float32", drafters=[]).drafters


def test_a_base_that_moved(made: Made, copy: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(made.home / "model", tmp_path / "elsewhere")
    edit(copy / "bundle.json", lambda card: card.update(base_place=str(tmp_path / "gone")))
    with pytest.raises(
        errors.TargetError, match=r"loading '.*gone': there is no such file or folder; check the path\."
    ):
        bundles.read(copy)
    assert bundles.read(copy, base=str(moved)).target.name == str(moved)


def edit(path: Path, change: Callable[[dict], object]) -> None:
    """Change a JSON file."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def says(kind: type[Exception], folder: Path, sentence: str, **settings: str) -> None:
    """Reading the bundle fails with exactly this sentence."""
    with pytest.raises(kind) as met:
        bundles.read(folder, dtype="float32", device="cpu", **settings)
    assert str(met.value) == f"reading the bundle {folder}: {sentence}"


def test_no_bundle(tmp_path: Path) -> None:
    todo = "give a folder that `draftune tune` wrote."
    says(errors.StorageError, tmp_path / "nowhere", f"no such folder; {todo}")
    says(errors.StorageError, tmp_path, f"it has no bundle.json; {todo}")
    (tmp_path / "bundle.json").write_text("{")
    with pytest.raises(errors.StorageError, match=r"bundle\.json cannot be read \(Expecting property name"):
        bundles.read(tmp_path)


def test_a_format_of_the_future(copy: Path) -> None:
    edit(copy / "bundle.json", lambda card: card.update(format=2))
    sentence = "bundle.json has format 2, known is 1; read it with the version of draftune that wrote it."
    says(errors.StorageError, copy, sentence)


GIVE = "give the model that it was tuned from."


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 1}, "the weights of {base} are not those that it was tuned from"),
        ({"hidden_size": 64}, "its base model has width 32, the model loaded has 64"),
        ({"vocab_size": 60}, "its base model has vocabulary 64, the model loaded has 60"),
    ],
    ids=["weights", "width", "vocabulary"],
)
def test_another_base_model(made: Made, tmp_path: Path, change: dict, sentence: str) -> None:
    base = str(tmp_path / "base")
    save_tiny(base, dtype="float32", **change)
    says(errors.MismatchError, made.one, f"{sentence.format(base=base)}; {GIVE}", base=base)


def test_another_chat_template(made: Made, tmp_path: Path) -> None:
    target = save_tiny(tmp_path, dtype="float32")
    target.tokenizer.chat_template = target.tokenizer.chat_template.replace("<|im_end|>", "<|im_end|> ")
    target.tokenizer.save_pretrained(tmp_path)
    sentence = (
        "the tokenizer's chat template is not the one that it was tuned with; restore the template, or tune again."
    )
    says(errors.MismatchError, made.one, sentence, base=str(tmp_path))


TOGETHER = "keep the adapter and the drafter of one tuning together."


def test_another_adapter(made: Made, copy: Path) -> None:
    shutil.rmtree(copy / "adapter")
    shutil.copytree(made.other / "adapter", copy / "adapter")
    sentence = f"the adapter in adapter/ is another than its drafters were trained for; {TOGETHER}"
    says(errors.MismatchError, copy, sentence)


@pytest.mark.parametrize("place", ["drafter", "drafters/medusa", "drafters/lookup"])
def test_another_tuning_s_drafter(made: Made, copy: Path, place: str) -> None:
    shutil.rmtree(copy / place)
    shutil.copytree(made.other / place, copy / place)
    name = "semiar-lstm" if place == "drafter" else Path(place).name
    says(errors.MismatchError, copy, f"its drafter {name!r} was trained for another adapter than it holds; {TOGETHER}")


def test_a_drafter_of_another_width(copy: Path) -> None:
    edit(copy / "drafter" / "config.json", lambda config: config["target"].update(hidden_size=64))
    with pytest.raises(errors.MismatchError, match="trained for a target of width 64, met one of 32"):
        bundles.read(copy)


def test_drafters_that_changed_places(copy: Path) -> None:
    (copy / "drafter").rename(copy / "x")
    (copy / "drafters" / "medusa").rename(copy / "drafter")
    sentence = (
        "drafter holds the drafter 'medusa' where bundle.json names 'semiar-lstm'; restore the folder, or tune again."
    )
    says(errors.MismatchError, copy, sentence)


def test_an_unknown_drafter(made: Made) -> None:
    with pytest.raises(errors.UnknownNameError, match=r"it holds no drafter 'medus'; did you mean 'medusa'\?"):
        bundles.read(made.one, drafters=["medus"])


def test_what_is_no_bundle_is_never_overwritten(made: Made, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(errors.ConfigError) as met:
        write(tmp_path, made.home / "model", 1)
    assert str(met.value) == (
        f"writing the bundle {tmp_path}: something that is no bundle is there (it has no bundle.json);"
        " choose another folder."
    )
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_bundle_and_an_empty_folder_are_replaced(made: Made, copy: Path, tmp_path: Path) -> None:
    write(copy, made.home / "model", 2)
    assert bundles.read_card(copy).tuned_fingerprint == bundles.read_card(made.other).tuned_fingerprint
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", made.home / "model", 2)
    assert sorted(os.listdir(tmp_path)) == ["bundle", "empty"]


def write_with_room(num_bytes: int, write: Callable[[], object]) -> str:
    """What `write` raises, as "Kind: sentence", in a child of this process whose files end after `num_bytes`."""
    import resource

    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.RLIM_INFINITY))
            write()
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.wait()
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limit on the size of files there")
@pytest.mark.parametrize("num_bytes", [0, 900, 9_000], ids=["nothing fits", "small files fit", "weights do not fit"])
def test_a_full_disk_leaves_the_previous_bundle(made: Made, copy: Path, num_bytes: int) -> None:
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    settings = {"base": "model", "base_fingerprint": "0", "task": "x", "task_fingerprint": "0", "command": ""}
    drafters = packed(made.target)
    said = write_with_room(num_bytes, lambda: bundles.write(copy, made.target, drafters, num_drafts=5, **settings))
    assert said.startswith(f"StorageError: writing the bundle {copy}: "), said
    assert "File too large" in said
    assert said.endswith("; free some space and try again; what was saved before is intact.")
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    assert os.listdir(copy.parent) == ["bundle"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limit on the size of files there")
def test_a_disk_with_room_takes_the_bundle(made: Made, copy: Path) -> None:
    """The test above fails for want of room, and for nothing else."""
    settings = {"base": "model", "base_fingerprint": "0", "task": "x", "task_fingerprint": "0", "command": "new"}
    drafters = packed(made.target)
    assert (
        write_with_room(10_000_000, lambda: bundles.write(copy, made.target, drafters, num_drafts=5, **settings)) == ""
    )
    assert bundles.read_card(copy).command == "new"
